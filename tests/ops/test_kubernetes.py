"""ops/kubernetes: that Kustomize can build it, that Kubernetes takes it, and that its numbers go together."""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer
import yaml
from headrace.cli import build as build_command

from .custom_resources import check as check_custom
from .kustomization import Built, Wrong, build, containers

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "ops" / "kubernetes"
FOLDERS = [
    path.parent for path in sorted(KUBERNETES.rglob("kustomization.yaml")) if path.parent.parent.name != "components"
]
# The oldest that the manifests are for, as base/kustomization.yaml says, and the newest whose schema is here.
VERSIONS = ["1.30", ".".join(kubernetes_validate.latest_version().split(".")[:2])]
MODEL = "all-minilm-l6-v2"


@pytest.fixture(params=FOLDERS, ids=lambda path: path.name)
def built(request: pytest.FixtureRequest) -> Built:
    found: Built = build(request.param)
    return found


def deployment(built: Built, name: str) -> dict[str, Any]:
    return next(o for o in built.objects if (o["kind"], o["metadata"]["name"]) == ("Deployment", f"headrace-{name}"))


def argument(container: dict[str, Any], flag: str) -> str:
    return str(next(value.partition("=")[2] for value in container["args"] if value.partition("=")[0] == flag))


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_takes_every_object(built: Built, version: str) -> None:
    for each in built.objects:
        if "." in each["apiVersion"].partition("/")[0] and not each["apiVersion"].partition("/")[0].endswith(".k8s.io"):
            check_custom(each)
        else:
            kubernetes_validate.validate(each, version, strict=True)


def test_every_component_is_in_an_overlay_or_fits_the_base(tmp_path: Path) -> None:
    for component in (KUBERNETES / "components").iterdir():
        folder = tmp_path / component.name
        folder.mkdir()
        said = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [str(KUBERNETES / "base")],
            "components": [str(component)],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(said), "utf-8")
        for each in build(folder).objects:
            if each["kind"] == "Deployment":
                kubernetes_validate.validate(each, VERSIONS[0], strict=True)


def test_a_patch_of_what_is_not_there_is_told(tmp_path: Path) -> None:
    said = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [str(KUBERNETES / "base")],
        "patches": [
            {"target": {"kind": "Deployment", "name": "mill"}, "patch": "- {op: remove, path: /spec/replicas}"}
        ],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(said), "utf-8")
    with pytest.raises(Wrong, match="mill"):
        build(tmp_path)


def test_pods_may_do_nothing_that_the_restricted_profile_forbids(built: Built) -> None:
    for each in built.objects:
        for container in containers(each):
            pod, own = each["spec"]["template"]["spec"], container["securityContext"]
            assert pod["securityContext"]["runAsNonRoot"] is True
            assert pod["securityContext"]["runAsUser"] > 0
            assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            assert own["allowPrivilegeEscalation"] is False
            assert own["readOnlyRootFilesystem"] is True
            assert own["capabilities"] == {"drop": ["ALL"]}
            assert pod["automountServiceAccountToken"] is False
            assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}
            assert all(volume.keys() & {"emptyDir", "secret"} for volume in pod["volumes"])


@pytest.mark.parametrize(("name", "flag"), [("worker", "--drain-timeout"), ("gateway", "--drain")])
def test_a_pod_has_more_time_to_end_than_it_takes_to_drain(built: Built, name: str, flag: str) -> None:
    pod = deployment(built, name)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    pause = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    assert pod["terminationGracePeriodSeconds"] > float(argument(container, flag)) + pause + 10


def test_probes_and_policies_name_ports_that_the_containers_listen_on(built: Built) -> None:
    policies = {o["metadata"]["name"]: o for o in built.objects if o["kind"] == "NetworkPolicy"}
    for name in ("worker", "gateway", "exporter"):
        (container,) = containers(deployment(built, name))
        (port,) = container["ports"]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["port"] == port["name"]
        (rule,) = policies[f"headrace-{name}"]["spec"]["ingress"]
        assert [each["port"] for each in rule["ports"]] == [port["containerPort"]]
        said = [*container["args"], *(e.get("value", "") for e in container["env"])]
        assert any(str(port["containerPort"]) in each for each in said)


def flags_of(command: Any) -> Iterator[str]:
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)


def test_containers_are_started_with_flags_that_the_command_has(built: Built) -> None:
    commands: dict[str, Any] = typer.main.get_command(build_command()).commands  # type: ignore[attr-defined]  # it is a group
    for name in ("worker", "gateway", "exporter"):
        (container,) = containers(deployment(built, name))
        subcommand, *rest = container["args"]
        flags = {each.partition("=")[0] for each in rest if each.startswith("--")}
        assert flags <= set(flags_of(commands[subcommand]))
        variables = {each["name"] for each in container["env"]} - {"HEADRACE_API_KEYS"}
        assert variables <= {p.envvar for p in commands[subcommand].params}


def test_workers_stay_at_least_as_long_as_they_may_take_to_load(built: Built) -> None:
    for scaled in (o for o in built.objects if o["kind"] == "ScaledObject"):
        probe = deployment(built, "worker")["spec"]["template"]["spec"]["containers"][0]["startupProbe"]
        assert "replicas" not in deployment(built, "worker")["spec"]
        loading_s = probe["periodSeconds"] * probe["failureThreshold"]
        assert scaled["spec"]["cooldownPeriod"] >= loading_s
        behaviour = scaled["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
        assert behaviour["scaleDown"]["stabilizationWindowSeconds"] >= loading_s


# Of each: seconds of backlog, workers (none: no series at all), and how many workers online work asks for.
BACKLOGS = {
    "half a second is what is allowed": ("0.5", "3", 3),
    "twice as much asks for twice the workers": ("1", "3", 6),
    "nothing to do asks for none": ("0", "3", 0),
    "no worker was ever heard, and there is work": ("Inf", "0", 7200),
    "a model that nobody has announced yet": ("2", "", 4),
}


@pytest.mark.parametrize("case", BACKLOGS)
def test_a_backlog_asks_for_workers_in_proportion(case: str, program: Callable[[str], str], tmp_path: Path) -> None:
    backlog, workers, wanted = BACKLOGS[case]
    scaled = next(o for o in build(KUBERNETES / "overlays" / "cpu").objects if o["kind"] == "ScaledObject")
    online = next(t["metadata"] for t in scaled["spec"]["triggers"] if t["name"] == "online")
    rules = {
        "groups": [
            {"name": "g", "rules": [{"record": "wanted", "expr": f"({online['query']}) / {online['threshold']}"}]}
        ]
    }
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rules), "utf-8")
    series = [
        {
            "series": f'headrace_fleet_backlog_seconds{{model="{MODEL}",class="online"}}',
            "values": " ".join([backlog] * 3),
        }
    ]
    if workers:
        series.append({"series": f'headrace_fleet_workers{{model="{MODEL}"}}', "values": " ".join([workers] * 3)})
    asked = {"expr": "wanted", "eval_time": "1m", "exp_samples": [{"labels": "wanted", "value": wanted}]}
    test = {"rule_files": ["rules.yml"], "tests": [{"input_series": series, "promql_expr_test": [asked]}]}
    (tmp_path / "test.yml").write_text(yaml.safe_dump(test), "utf-8")
    ended = subprocess.run(
        [program("promtool"), "test", "rules", str(tmp_path / "test.yml")], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_both_queries_ask_for_the_model_that_the_workers_serve(built: Built) -> None:
    (container,) = containers(deployment(built, "worker"))
    name = argument(container, "--name")
    for scaled in (o for o in built.objects if o["kind"] == "ScaledObject"):
        for trigger in scaled["spec"]["triggers"]:
            assert set(re.findall(r'model="([^"]*)"', trigger["metadata"]["query"])) == {name}


def test_the_operators_rules_are_those_of_prometheus() -> None:
    groups = [
        group
        for name in ("recording.yml", "alerts.yml")
        for group in yaml.safe_load((ROOT / "ops" / "prometheus" / name).read_text("utf-8"))["groups"]
    ]
    (rule,) = [o for o in build(KUBERNETES / "overlays" / "cpu").objects if o["kind"] == "PrometheusRule"]
    assert rule["spec"]["groups"] == groups, "run .venv/bin/python ops/kubernetes/prometheus_rule.py"


def test_what_is_scraped_has_the_names_of_jobs_that_the_rules_ask_for(built: Built) -> None:
    written = yaml.safe_load((ROOT / "ops" / "prometheus" / "prometheus.yml").read_text("utf-8"))
    names = {job["job_name"] for job in written["scrape_configs"]}
    monitors = [o for o in built.objects if o["kind"] == "PodMonitor"]
    for monitor in monitors:
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        (label,) = [each for each in endpoint["relabelings"] if each["targetLabel"] == "job"]
        names.remove(label["replacement"])
    assert not (monitors and names)
