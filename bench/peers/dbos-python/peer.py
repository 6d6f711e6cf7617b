"""DBOS for Python, measured as its peers are."""

import argparse
import importlib.metadata
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
from dbos import DBOS, DBOSClient

QUEUE = "peers"
# How long is started, in seconds.
WHILE = 1.5

ended = 0
began = 0.0


@DBOS.step()
def one_step(step: int) -> int:
    return step


@DBOS.workflow()
def steps(count: int) -> int:
    global ended
    for step in range(count):
        one_step(step)
    ended += 1
    return count


@DBOS.step()
def note() -> None:
    global began
    began = time.perf_counter()


@DBOS.workflow()
def first() -> None:
    note()


def launch(task, connections: int) -> None:
    DBOS(
        config={
            "name": "peers",
            "system_database_url": task.database,
            "sys_db_pool_size": connections,
            "application_version": "1",
            "log_level": "ERROR",
            "max_executor_threads": max(task.in_flight or 0, 64),
        }
    )
    DBOS.launch()


def prepare(task, concurrency=None, interval: float = 1.0) -> None:
    """Makes the tables and the queue, which is a row of one."""
    launch(task, 10)
    DBOS.register_queue(
        QUEUE,
        worker_concurrency=concurrency,
        polling_interval_sec=interval,
        on_conflict="always_update",
    )
    DBOS.destroy()


def client(task, connections: int) -> DBOSClient:
    return DBOSClient(
        system_database_url=task.database, system_database_pool_size=connections, application_name="peers"
    )


def enqueue(client: DBOSClient, workflow: str, name: str, *arguments):
    options = {"queue_name": QUEUE, "workflow_name": workflow, "workflow_id": name}
    return client.enqueue(options, *arguments)


def drain(task):
    prepare(task, task.in_flight, 0.01)
    starting = client(task, task.connections)
    with ThreadPoolExecutor(task.connections) as pool:
        names = (f"{at:08}" for at in range(task.workflows))
        list(pool.map(lambda name: enqueue(starting, "steps", name, task.steps), names))
    starting.destroy()

    start = time.perf_counter()
    launch(task, task.connections)
    while ended < task.workflows:
        time.sleep(0.002)
    with psycopg.connect(task.database, autocommit=True) as connection:
        left = "SELECT count(*) FROM dbos.workflow_status WHERE status <> 'SUCCESS'"
        while connection.execute(left).fetchone()[0] > 0:
            time.sleep(0.002)
    took = time.perf_counter() - start
    return [("drained", "workflows/s", task.workflows / took)]


def latency(task):
    prepare(task)
    launch(task, 10)
    apart = client(task, 10) if task.apart else None
    firsts, results = [], []
    for at in range(task.submits):
        # Long enough for the worker to have nothing left to do, and never in step with a poll.
        time.sleep((20 + at * 37 % 200) / 1000)
        submitted = time.perf_counter()
        if apart:
            enqueue(apart, "first", str(at)).get_result()
        else:
            DBOS.start_workflow(first).get_result()
        results.append((time.perf_counter() - submitted) * 1000)
        firsts.append((began - submitted) * 1000)

    def quantile(values, share):
        return sorted(values)[round((len(values) - 1) * share)]

    return [
        (f"{name}, {of}", "ms", quantile(values, share))
        for name, values in (("first step", firsts), ("result", results))
        for of, share in (("p50", 0.5), ("p99", 0.99))
    ]


def start(task):
    prepare(task)
    starting = client(task, task.connections)
    until = time.perf_counter() + WHILE

    def call(caller: int) -> int:
        started = 0
        while time.perf_counter() < until:
            enqueue(starting, "steps", f"{caller}-{started}", 5)
            started += 1
        return started

    begun = time.perf_counter()
    with ThreadPoolExecutor(task.callers) as pool:
        started = sum(pool.map(call, range(task.callers)))
    return [("started", "starts/s", started / (time.perf_counter() - begun))]


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("measure", choices=["about", "drain", "latency", "start"])
    arguments.add_argument("--database")
    for name in ("workflows", "steps", "in-flight", "connections", "submits", "callers"):
        arguments.add_argument(f"--{name}", type=int)
    arguments.add_argument("--apart", action="store_true")
    task = arguments.parse_args()
    if task.measure == "about":
        version = importlib.metadata.version("dbos")
        setup = "queue polled every 10 ms instead of 1 s, a thread for each in flight; pool of 32 instead of the default"
        print(json.dumps({"version": version, "setup": setup}))
    else:
        measures = {"drain": drain, "latency": latency, "start": start}
        for figure, unit, value in measures[task.measure](task):
            print(json.dumps({"figure": figure, "unit": unit, "value": value}))
    # Background threads would hold the process; what was measured has been told.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
