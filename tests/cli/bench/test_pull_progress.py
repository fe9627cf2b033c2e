"""What is said while images are pulled."""

from proctor.cli.bench.pull_progress import PullReporter
from proctor.environments import docker
from proctor.environments.docker import PullProgress


def step(status: str, layer: str = "", current: int = 0, total: int = 0, image: str = "a:1") -> PullProgress:
    return PullProgress(image=image, status=status, layer=layer, current=current, total=total)


def test_a_pull_is_told_when_it_begins_now_and_then_and_when_it_is_done() -> None:
    told: list[str] = []
    clock = iter(range(0, 1000, 10))
    pulls = PullReporter(told.append, lambda: float(next(clock)))
    for one in (
        step("Pulling from a"),
        step("Downloading", "x", 1_000_000, 4_000_000),
        step("Downloading", "y", 1_000_000, 6_000_000),
        step("Extracting", "x", 7, 9),
        step("Downloading", "x", 4_000_000, 4_000_000),
        step("Status: Downloaded newer image for a:1"),
        step("Pulling from b", image="b:1"),
    ):
        pulls(one)
    assert told == [
        "pulling a:1",
        "pulling a:1: 2 of 10 MB, as far as is known",
        "pulling a:1: 5 of 10 MB, as far as is known",
        "pulled a:1 in 50 s",
        "pulling b:1",
    ]


def test_the_building_of_an_image_is_told_too() -> None:
    told: list[str] = []
    clock = iter([0.0, 70.0])
    pulls = PullReporter(told.append, lambda: next(clock))
    for status in (docker.BUILDING_STATUS, docker.BUILT_STATUS):
        pulls(step(status, image="/tasks/greet"))
    assert told == ["building the image of /tasks/greet", "built the image of /tasks/greet in 70 s"]


def test_a_build_of_minutes_shows_which_step_it_is_at() -> None:
    told: list[str] = []
    clock = iter([0.0, 1.0, 20.0, 30.0, 50.0, 90.0])
    pulls = PullReporter(told.append, lambda: next(clock))
    for line in ("", "Step 1/3 : FROM python", " ---> 0123", "Step 2/3 : RUN make", "gcc -c main.c"):
        pulls(step(docker.BUILDING_STATUS, line, image="/tasks/greet"))
    pulls(step(docker.BUILT_STATUS, image="/tasks/greet"))
    assert told == [
        "building the image of /tasks/greet",
        "building the image of /tasks/greet: Step 1/3 : FROM python, 20 s so far",
        "building the image of /tasks/greet: Step 2/3 : RUN make, 50 s so far",
        "built the image of /tasks/greet in 90 s",
    ]
