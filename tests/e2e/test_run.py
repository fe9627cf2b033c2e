from hall import Hall, access, toy_run
from toy_provider import toy_provider


async def test_a_run(hall: Hall) -> None:
    async with toy_provider() as provider:
        done = await hall.run(*toy_run(provider, "--concurrency", 2), **access(provider))
    assert done.code == 0, done
    print(done)
    assert hall.leftovers() == []
