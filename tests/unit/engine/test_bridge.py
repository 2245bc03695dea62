import asyncio
import threading
import time

from graphmill.engine.bridge import blocking


def test_a_thread_whose_call_is_over_is_gone_when_the_loop_is():
    threads, gate = [], threading.Event()

    def work():
        threads.append(threading.current_thread())
        gate.wait(60)

    async def acall():
        future = asyncio.get_running_loop()._default_executor.submit(work)
        done = asyncio.wrap_future(future)
        future.add_done_callback(lambda _: time.sleep(0.2))  # its call is over then, the thread is not
        gate.set()
        await done

    blocking(acall)()
    assert [thread.is_alive() for thread in threads] == [False]


def test_a_thread_at_work_is_not_waited_for():
    threads, gate = [], threading.Event()

    def work():
        threads.append(threading.current_thread())
        started.set()
        gate.wait(60)

    async def acall():
        asyncio.get_running_loop().run_in_executor(None, work)
        started.wait(60)

    started = threading.Event()
    blocking(acall)()
    assert [thread.is_alive() for thread in threads] == [True]
    gate.set()
    threads[0].join()
