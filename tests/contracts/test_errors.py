from headrace_contracts import ContractError, DecodeError, ErrorCode, InvalidName


def test_the_set_of_codes_is_closed() -> None:
    assert [str(code) for code in ErrorCode] == [
        "invalid",
        "too_long",
        "model_mismatch",
        "non_finite",
        "expired",
        "cancelled",
        "overloaded",
        "unavailable",
        "internal",
    ]


def test_only_what_passes_by_itself_is_retryable() -> None:
    assert {code for code in ErrorCode if code.retryable} == {ErrorCode.OVERLOADED, ErrorCode.UNAVAILABLE}


def test_every_error_of_the_contract_is_a_value_error_with_a_sentence() -> None:
    for error in (DecodeError, InvalidName):
        assert issubclass(error, ContractError)
        assert error.__doc__
    assert issubclass(ContractError, ValueError)
