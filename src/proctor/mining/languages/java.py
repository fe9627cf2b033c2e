"""Java: Maven or Gradle with a repository of its own, filled by one run of the tests; reports in JUnit's format."""

import re
import shlex
from pathlib import PurePosixPath
from typing import Final

from proctor.benchmarks.suites.format import SuiteEnvironmentFile, TestsEval
from proctor.mining.languages.base import EnvironmentPlan, InstallFolder, Language, Project, SetupFailed
from proctor.mining.settings import MineSettings

_SKIPPED: Final = (
    "-Drat.skip=true -Dcheckstyle.skip=true -Dspotbugs.skip=true -Dpmd.skip=true -Dcpd.skip=true -Djacoco.skip=true "
    "-Denforcer.skip=true -Dmaven.javadoc.skip=true -Danimal.sniffer.skip=true -Djapicmp.skip=true -Dlicense.skip=true "
    "-Dspotless.check.skip=true -Dbuildnumber.skip=true -Dmaven.gitcommitid.skip=true -Dgpg.skip=true"
)
_MAVEN: Final = f"$mvn --batch-mode --no-transfer-progress -Dmaven.repo.local=/deps/maven {_SKIPPED}"
_CHOOSE: Final = "mvn=/deps/apache-maven/bin/mvn; [ -x $mvn ] || mvn=mvn"
# Where a plugin needs a newer Maven than there is, this one is fetched as any artifact is.
_NEWER_MAVEN: Final = "3.9.11"
_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
# Maven fetches what runs the tests only when there is something to run: the smallest test class of each module.
_MAVEN_INSTALL: Final = f"""
cp -r /environment/files/. .
export HOME=/tmp/home MAVEN_OPTS="-Duser.home=/tmp/home"
mkdir -p $HOME
smallest=$(find . -path '*/src/test/*' -type d -name java | sort | while read -r folder; do
  find "$folder" -name '*Test.java' -printf '%s %f\\n' | sort -n | head -n 1
done | sed 's/.* //; s/[.]java$//' | paste -s -d ,)
run_tests() {{
  {_MAVEN} @MODULES@ -Dmaven.test.failure.ignore=true -DfailIfNoTests=false \\
    -Dsurefire.failIfNoSpecifiedTests=false ${{smallest:+-Dtest="$smallest"}} test || {_MAVEN} @MODULES@ test-compile
}}
{_CHOOSE}
run_tests > /tmp/maven.txt && done=yes || done=
cat /tmp/maven.txt
if [ -z "$done" ]; then
  grep -q 'requires Maven version' /tmp/maven.txt
  (cd /tmp && {_MAVEN} {_PLUGIN}:copy -Dartifact=org.apache.maven:apache-maven:{_NEWER_MAVEN}:tar.gz:bin \\
    -DoutputDirectory=/tmp/maven)
  mkdir /deps/apache-maven
  tar -xzf /tmp/maven/apache-maven-{_NEWER_MAVEN}-bin.tar.gz -C /deps/apache-maven --strip-components=1
  rm -r /deps/maven/org/apache/maven/apache-maven
  {_CHOOSE}
  run_tests
fi
find /deps/maven -name '*.lastUpdated' -delete
find /deps/maven -name '_remote.repositories' -delete
"""
_MAVEN_TEST: Final = f"""
{_CHOOSE}
{_MAVEN} @MODULES@ --offline -q -DfailIfNoTests=false -Dsurefire.failIfNoSpecifiedTests=false -Dtest="$2" test
code=$?
mkdir -p "$1"
find . -path '*/surefire-reports/TEST-*.xml' -exec cp {{}} "$1/" \\;
exit $code
"""
_GRADLE_INSTALL: Final = """
cp -r /environment/files/. .
export HOME=/tmp/home
mkdir -p $HOME
if [ -x ./gradlew ]; then ./gradlew --no-daemon test --continue || ./gradlew --no-daemon testClasses
else gradle --no-daemon test --continue || gradle --no-daemon testClasses; fi
"""
_GRADLE_TEST: Final = """
if [ -x ./gradlew ]; then gradle=./gradlew; else gradle=gradle; fi
report=$1; shift
$gradle --no-daemon --offline test --continue "$@"
code=$?
mkdir -p "$report"
find . -path '*/test-results/*/TEST-*.xml' -exec cp {} "$report/" \\;
exit $code
"""


class JavaLanguage(Language):
    """Java, and Kotlin beside it."""

    name = "java"

    async def plan_environment(
        self,
        project: Project,
        settings: MineSettings,
        install: InstallFolder,
    ) -> EnvironmentPlan:
        """What the build fetches for a run of its tests."""
        is_maven = _is_maven(project)
        names = (
            ("pom.xml",)
            if is_maven
            else (
                "build.gradle",
                "build.gradle.kts",
                "settings.gradle",
                "settings.gradle.kts",
                "gradle.properties",
                "libs.versions.toml",
            )
        )
        files = project.manifests([path for path in project.paths if PurePosixPath(path).name in names])
        version = settings.setup.runtimes.get("java", "*")
        jdk = "17" if version == "*" else version
        variables = {} if is_maven else {"GRADLE_USER_HOME": "/deps/gradle"}
        return EnvironmentPlan(
            file=SuiteEnvironmentFile(
                schema_version="proctor.suite_environment@1",
                install=(_of_modules(_MAVEN_INSTALL, project, settings) if is_maven else _GRADLE_INSTALL).strip(),
                runtimes={"java": version},
                variables={**variables, **settings.setup.variables},
                image=settings.setup.image or (f"maven:3-eclipse-temurin-{jdk}" if is_maven else f"gradle:8-jdk{jdk}"),
            ),
            files={f"files/{name}": data for name, data in files.items()},
        )

    def plan_tests(self, project: Project, settings: MineSettings) -> TestsEval:
        """The changed test classes."""
        classes = sorted(
            {
                PurePosixPath(path).stem
                for path in project.tests
                if path.endswith((".java", ".kt"))
                and re.search(r"Tests?$|TestCase$|^Test[A-Z]|IT$|Spec$", PurePosixPath(path).stem)
            }
        )
        if not classes:
            raise SetupFailed("changes no test class", code="no-test-module")
        if _is_maven(project):
            chosen = "*" if settings.test.scope == "all" else ",".join(classes)
            command: tuple[str, ...] = (
                *("sh", "-c", _of_modules(_MAVEN_TEST, project, settings), "sh", "{report}", chosen),
            )
        else:
            filters = (
                ()
                if settings.test.scope == "all"
                else tuple(word for name in classes for word in ("--tests", f"*{name}"))
            )
            command = ("sh", "-c", _GRADLE_TEST, "sh", "{report}", *filters)
        return TestsEval(format="junit", command=command)


def _of_modules(script: str, project: Project, settings: MineSettings) -> str:
    """A script of Maven for the modules of the changed tests and those that they need: others may not build here."""
    poms = {PurePosixPath(path).parent for path in project.paths if PurePosixPath(path).name == "pom.xml"}
    modules = {
        next((str(folder) for folder in PurePosixPath(path).parents if folder in poms), ".") for path in project.tests
    }
    is_whole = len(poms) == 1 or settings.test.scope == "all"
    chosen = "" if is_whole else f"--also-make --projects {shlex.quote(','.join(sorted(modules)))} "
    return script.replace("@MODULES@ ", chosen)


def _is_maven(project: Project) -> bool:
    if "pom.xml" in project.paths:
        return True
    if any(PurePosixPath(path).name in {"build.gradle", "build.gradle.kts"} for path in project.paths):
        return False
    raise SetupFailed(
        "it has neither pom.xml nor build.gradle; say how it is set up in [setup] commands", code="no-manifest"
    )
