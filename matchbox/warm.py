"""Compiles every kernel before it is needed: `python -m matchbox.warm`. Plain Python.

The first use of each kernel compiles it, which takes a minute for all of them; after that they are
read from the cache folder. Test runs warm them once, so that their workers do not all compile the
same.
"""

import sys
import tempfile
import time
from pathlib import Path


def is_cold() -> bool:
    """Whether nothing is compiled yet in this state of the sources, versions and settings."""
    from matchbox.jit import CACHE

    return next(CACHE.rglob("*.nbi"), None) is None


def compile_all() -> None:
    """Make and use the smallest exchange and the smallest engine in process."""
    from matchbox.demo import configuration
    from matchbox.embedded import Engine
    from matchbox.exchange import Exchange

    engine = Engine(orders=16, levels=16, instruments=2)
    engine.enter(order_id=1, side="buy", price=100, quantity=10)
    engine.front(1, "buy")
    engine.check()
    assert engine.digest
    with tempfile.TemporaryDirectory(prefix="matchbox-warm-") as folder:
        for _ in range(2):  # the second one recovers what the first one logged
            with Exchange(configuration(Path(folder))) as exchange:
                assert exchange.stream


def main() -> None:
    start = time.perf_counter()
    print("compiling kernels" if is_cold() else "reading compiled kernels", file=sys.stderr)
    compile_all()
    print(f"kernels ready after {time.perf_counter() - start:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
