// Restate, measured as its peers are, by its SDK for TypeScript. It needs no database: its server brings a log of its own,
// which is fsynced by default. The server is started for one measure, on a fresh directory, and stopped after it.

import { spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as restate from "@restatedev/restate-sdk";
import { allEnded, main, pause, startAll, starts, submits, version } from "./frame.mjs";

/** Keeps the server until stdin ends, which it also does when this process is killed; then its data goes too. */
const KEEPER = '"$@" </dev/null & read -r _; kill -KILL $!; wait $!; rm -rf "$0"';

/** How the names of workflows begin that only warm the server up. */
const WARM = "warm-";

/** So many free ports of this machine. */
async function ports(count) {
  const servers = Array.from({ length: count }, () => createServer());
  await Promise.all(servers.map((server) => new Promise((done) => server.listen(0, "127.0.0.1", done))));
  const numbers = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((done) => server.close(done))));
  return numbers;
}

async function post(url, body, headers = {}) {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url}: ${response.status} ${text}`);
  return text;
}

/** Runs `measure` with a server and a worker that serves the workflow. */
async function served(body, inFlight, measure) {
  const [ingress, admin, node, worker] = await ports(4);
  const directory = mkdtempSync(join(tmpdir(), "peers-restate-"));
  const binary = new URL(`node_modules/@restatedev/restate-server-linux-${process.arch}/bin/restate-server`, import.meta.url).pathname;
  const flags = ["--no-logo", "--base-dir", directory, "--node-name", "peers", "--listen-mode", "tcp"];
  const server = spawn("sh", ["-c", KEEPER, directory, binary, ...flags], {
    stdio: ["pipe", "ignore", "ignore"],
    env: {
      ...process.env,
      RESTATE_LOG_FILTER: "error",
      RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
      RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
      RESTATE_BIND_ADDRESS: `127.0.0.1:${node}`,
      RESTATE_WORKER__INVOKER__CONCURRENT_INVOCATIONS_LIMIT: String(inFlight),
      DO_NOT_TRACK: "1",
    },
  });
  const ended = new Promise((done) => server.on("exit", done));
  try {
    const run = async (context, input) => (context.key.startsWith(WARM) ? null : await body(context, input));
    const flow = restate.workflow({ name: "Flow", handlers: { run } });
    await restate.serve({ services: [flow], port: worker });
    const url = `http://127.0.0.1:${ingress}`;
    for (let attempt = 0; ; attempt++) {
      try {
        await post(`http://127.0.0.1:${admin}/deployments`, { uri: `http://127.0.0.1:${worker}` });
        break;
      } catch (error) {
        if (attempt > 150) throw error;
        await pause(200);
      }
    }
    // A fresh server takes a while until all its partitions answer.
    await Promise.all(Array.from({ length: 100 }, (_, at) => post(`${url}/Flow/${WARM}${at}/run`, null)));
    return await measure(url);
  } finally {
    server.stdin.end();
    await ended;
  }
}

const send = (url, name, steps) => post(`${url}/Flow/${name}/run/send`, steps);

async function drain(task) {
  let open;
  // Bodies wait here until all are started, so that those are drained that were started up front.
  const gate = new Promise((done) => (open = done));
  let ended = 0;
  const body = async (run, steps) => {
    await gate;
    for (let step = 0; step < steps; step++) {
      await run.run(`step-${step}`, async () => step);
    }
    ended++;
    return steps;
  };
  return await served(body, task.inFlight, async (url) => {
    await startAll(task, (name) => send(url, name, task.steps));
    const began = performance.now();
    open();
    // The end of a body is near enough: its end is in the log a few milliseconds later.
    await allEnded(
      () => ended >= task.workflows,
      async () => 0,
    );
    return (performance.now() - began) / 1000;
  });
}

async function latency(task) {
  let began = 0;
  const body = async (run) => {
    await run.run("first", async () => {
      began = performance.now();
    });
  };
  return await served(body, 1000, (url) =>
    submits(
      task,
      () => began,
      (name) => post(`${url}/Flow/${name}/run`, null),
    ),
  );
}

async function startMany(task) {
  // Nothing goes on while starts are measured.
  const never = new Promise(() => {});
  return await served(
    async () => await never,
    1,
    (url) => starts(task, (name) => send(url, name, 5)),
  );
}

await main({
  version: () => version("@restatedev/restate-server"),
  setup: "a server and a log of its own beside one node process, defaults (fsync on); no Postgres",
  drain,
  latency,
  start: startMany,
});
