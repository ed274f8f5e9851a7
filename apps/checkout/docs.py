"""Build the documentation site: `scripts/docs`. A warning is an error."""

import argparse
import os
import subprocess
import sys

from sequitur.local import jars
from sequitur.local.home import HOME, ROOT, LocalError


def main(arguments: list[str] | None = None) -> int:
    """Build or serve the site and return the exit status: 0 only if there is no warning."""
    parser = argparse.ArgumentParser(prog="scripts/docs", description=__doc__)
    parser.add_argument("--serve", action="store_true", help="show it in a browser as it changes")
    parser.add_argument("--site", default=str(HOME / "site"), help="the folder to build into")
    parser.add_argument("--port", type=int, default=8000, help="where --serve listens")
    options = parser.parse_args(arguments)
    try:
        jars.install(jars.MERMAID)
    except LocalError as error:
        print(error, file=sys.stderr)
        return 2
    os.chdir(ROOT)
    os.environ["NO_MKDOCS_2_WARNING"] = "1"
    command = [sys.executable, "-m", "mkdocs"]
    if options.serve:
        os.execv(sys.executable, [*command, "serve", "--dev-addr", f"127.0.0.1:{options.port}"])
    return subprocess.run(
        [*command, "build", "--strict", "--quiet", "--site-dir", options.site], check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
