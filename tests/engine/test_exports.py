import headrace_engine


def test_every_exported_name_is_there_and_none_is_forgotten() -> None:
    public = {
        name
        for name, value in vars(headrace_engine).items()
        if getattr(value, "__module__", "").startswith("headrace_engine.")
    }
    assert public == set(headrace_engine.__all__)


def test_every_error_is_an_engine_error_with_a_sentence() -> None:
    errors = [
        headrace_engine.BatchError,
        headrace_engine.CheckpointError,
        headrace_engine.ModelNotFound,
        headrace_engine.UnsupportedModel,
    ]
    assert all(issubclass(error, headrace_engine.EngineError) and error.__doc__ for error in errors)
