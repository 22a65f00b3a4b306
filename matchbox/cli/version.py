"""`matchbox version`: what to put into a bug report."""

import os
import platform
from importlib import metadata
from pathlib import Path

import click

from matchbox.config import state_folder

DISTRIBUTION = "matchbox-engine"
PACKAGES = ("numba", "llvmlite", "numpy", "sortedcontainers", "zstandard", "click", "rich")
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def package_version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def processor() -> str:
    """The processor's own name where the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def huge_pages() -> str:
    try:
        return HUGE_PAGES.read_text().partition("[")[2].partition("]")[0]
    except OSError:
        return "unknown"


def facts() -> list[tuple[str, str]]:
    """Name and value of everything that can make one installation behave unlike another."""
    return [
        ("python", f"{platform.python_implementation()} {platform.python_version()}"),
        *((name, package_version(name)) for name in PACKAGES),
        ("system", f"{platform.system()} {platform.release()} {platform.machine()}"),
        ("processor", f"{processor()}, {len(os.sched_getaffinity(0))} cores usable"),
        ("huge pages", huge_pages()),
        ("package", str(Path(__file__).parents[1])),
        ("state folder", str(state_folder())),
    ]


@click.command()
@click.option("-v", "--verbose", is_flag=True, help="Also packages, machine and folders.")
def version(verbose: bool) -> None:
    """Print the version; --verbose: of everything that matters.

    \b
    Examples:
      matchbox version
      matchbox version --verbose
    """
    click.echo(f"matchbox {package_version(DISTRIBUTION)}")
    if verbose:
        for name, value in facts():
            click.echo(f"{name:<16} {value}")
