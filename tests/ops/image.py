"""How an image of ops/Dockerfile is built from files alone.

Knows the flags of docker build that ops/Dockerfile is written for. Does not know where the files come from.
"""

from pathlib import Path

from .docker import Docker

ROOT = Path(__file__).parents[2]


def build(daemon: Docker, target: str, packages_url: str, settings: Path) -> None:
    """Build an image of ops/Dockerfile with packages of one page alone, as headrace:TARGET.

    Args:
        daemon: that builds and has it afterwards.
        target: a stage of ops/Dockerfile.
        packages_url: of a page of links to packages.
        settings: a file for pip's settings, which the build takes as a secret.
    """
    settings.write_text(f"[global]\nno-index = true\nfind-links = {packages_url}\n", "utf-8")
    flags = ("--network", "host", "--secret", f"id=pip,src={settings}", "--build-arg", "REVISION=tested")
    named = ("--file", str(ROOT / "ops" / "Dockerfile"), "--target", target, "--tag", f"headrace:{target}")
    daemon("build", *flags, *named, str(ROOT))
