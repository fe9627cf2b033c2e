"""Makes the screenshots of docs/reports.md: reports on real runs of Claude Code with scripted models, in Chromium.

make screenshots
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROCTOR = Path(sys.executable).with_name("proctor")
RUNS = (("fair", 3), ("able", 3), ("poor", 1))


def main() -> None:
    browser = shutil.which("chromium")
    if browser is None:
        sys.exit("there is no chromium on this machine; on Debian: apt-get install chromium")
    with tempfile.TemporaryDirectory(prefix="pictures-") as name:
        folder = Path(name)
        environment = {**os.environ, "PROCTOR_RESULTS": str(folder / "results")}

        def proctor(*words: object) -> None:
            command = [PROCTOR, "bench", *map(str, words)]
            subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)

        proctor("validate", "core-mini", "--jobs", 2, "--quiet", "--artifact-dir", folder / "artifacts")
        for kind, trials in RUNS:
            script = f"{kind}.yaml"
            subprocess.run([sys.executable, ROOT / "demo" / "make_script.py", kind, script], cwd=folder, check=True)
            options = ("--trials", trials, "--concurrency", 2, "--quiet")
            proctor("run", "core-mini", "--model", f"script:{script}", *options)
        proctor("report", "core-mini", "--logs", "--html", folder / "report.html")
        proctor("compare", "run-001", "run-002", "--html", folder / "compare.html")
        for page, picture, size, dark in (
            ("report", "report.png", "900,1250", False),
            ("compare", "report-phone-dark.png", "412,1000", True),
        ):
            # 0 is dark, 1 is light.
            scheme = f"--blink-settings=preferredColorScheme={int(not dark)}"
            shot = f"--screenshot={ROOT / 'docs' / picture}"
            look = (
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                f"--user-data-dir={folder / 'user'}",
            )
            subprocess.run(
                [browser, *look, scheme, f"--window-size={size}", shot, (folder / f"{page}.html").as_uri()],
                check=True,
                stderr=subprocess.DEVNULL,
            )


if __name__ == "__main__":
    main()
