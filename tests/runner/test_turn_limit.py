from toy_benchmark import Toy

from cli_world import STANDINS
from paths import PYTHON
from proctor.core.causes import Cause
from proctor.core.result import AlteredRequests
from sessions import Toys
from toy_provider import toy_provider

AGENT = f"{PYTHON} -I -S {STANDINS / 'toy_agent.py'}"


async def test_an_agent_without_a_limit_of_its_own_is_stopped_at_the_gateway_and_what_it_did_is_graded(
    toys: Toys,
) -> None:
    toys.benchmark = Toy(1)
    async with toy_provider() as provider:
        again_and_again = f"while {AGENT}; do :; done"
        await toys.run(provider, command=("sh", "-c", again_and_again))
        assert provider.asked.total() == provider.turns
    (result,) = toys.store.results()
    assert result.attempts[-1].cause is Cause.TURN_LIMIT
    assert f"the limit of {provider.turns} turns is reached" in result.attempts[-1].detail
    assert result.metrics.turns == provider.turns
    assert result.altered is None


async def test_refused_requests_are_in_the_result(toys: Toys) -> None:
    toys.benchmark = Toy(1)
    ask = (
        "import json, os, urllib.request, urllib.error\n"
        "body = {'model': 'm', 'n': 2, 'messages': []}\n"
        "url = os.environ['OPENAI_BASE_URL'] + '/chat/completions'\n"
        "try: urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), method='POST'))\n"
        "except urllib.error.HTTPError as error: print(error.code)\n"
    )
    async with toy_provider() as provider:
        await toys.run(provider, command=(str(PYTHON), "-c", ask))
    (result,) = toys.store.results()
    assert result.altered == AlteredRequests(refused={"n > 1": 1})
