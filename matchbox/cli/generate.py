"""`matchbox generate`: a seeded session as a capture file."""

from pathlib import Path

import click

from matchbox.cli.terminal import loading


@click.command(short_help="Write a seeded session to a file.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--commands", type=click.IntRange(0), default=100_000, help="Default: 100,000.")
@click.option("--seed", type=int, default=1, help="Another number, another session. Default: 1.")
@click.option("--instruments", type=click.IntRange(1), default=1, help="Default: 1.")
def generate(file: Path, commands: int, seed: int, instruments: int) -> None:
    """Write made-up order flow to FILE, a capture: the same bytes for the same seed, everywhere.

    A file of that name is replaced, once the new one is whole.

    \b
    Examples:
      matchbox generate session.mbc
      matchbox generate session.mbc --commands 1000000 --seed 7
      matchbox generate session.mbc --instruments 20 && matchbox replay session.mbc
    """
    from matchbox.generate import session

    records = session(commands, seed, instruments)
    with loading():
        from matchbox.decode import capture
    capture.write(file, records)
    span_s = (int(records["time_ns"][-1]) - int(records["time_ns"][0])) / 1e9 if commands else 0.0
    click.echo(f"{file}: {commands:,} commands over {span_s:,.1f} s, seed {seed}")
