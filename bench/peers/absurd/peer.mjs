// Absurd, measured as its peers are, by its SDK for TypeScript. Its schema comes with `absurdctl`.

import { readFileSync } from "node:fs";
import { Absurd } from "absurd-sdk";
import pg from "pg";
import { allEnded, main, startAll, starts, submits, version } from "./frame.mjs";

const QUEUE = "peers";
const quiet = { log() {}, info() {}, warn: console.error, error: console.error };

function pool(task, connections) {
  return new pg.Pool({ connectionString: task.database, max: connections });
}

function client(pool) {
  return new Absurd({ db: pool, queueName: QUEUE, log: quiet });
}

/** Makes the tables and the queue. */
async function prepare(pool) {
  await pool.query(readFileSync(new URL("schema.sql", import.meta.url), "utf8"));
  await client(pool).createQueue(QUEUE);
}

const start = (app, name, steps) => app.spawn("steps", steps, { queue: QUEUE, idempotencyKey: name });

async function drain(task) {
  const shared = pool(task, task.connections);
  await prepare(shared);
  const app = client(shared);
  let ended = 0;
  app.registerTask({ name: "steps" }, async (steps, run) => {
    for (let step = 0; step < steps; step++) {
      await run.step(`step-${step}`, async () => step);
    }
    ended++;
    return steps;
  });
  await startAll(task, (name) => start(app, name, task.steps));

  const began = performance.now();
  const worker = await app.startWorker({ concurrency: task.inFlight, batchSize: task.inFlight, pollInterval: 0.01 });
  await allEnded(
    () => ended >= task.workflows,
    async () => {
      const left = await shared.query(`SELECT count(*) FROM absurd.t_${QUEUE} WHERE state <> 'completed'`);
      return Number(left.rows[0].count);
    },
  );
  const took = (performance.now() - began) / 1000;
  await worker.close();
  return took;
}

async function latency(task) {
  const working = pool(task, 10);
  await prepare(working);
  const app = client(working);
  let began = 0;
  app.registerTask({ name: "first" }, async (_, run) => {
    await run.step("first", async () => {
      began = performance.now();
      return null;
    });
  });
  const worker = await app.startWorker();
  const submitting = task.apart ? client(pool(task, 10)) : app;
  const figures = await submits(
    task,
    () => began,
    async (name) => {
      const { taskID } = await submitting.spawn("first", null, { queue: QUEUE, idempotencyKey: name });
      await submitting.awaitTaskResult(taskID);
    },
  );
  await worker.close();
  return figures;
}

async function startMany(task) {
  const shared = pool(task, task.connections);
  await prepare(shared);
  const app = client(shared);
  return await starts(task, (name) => start(app, name, 5));
}

await main({
  version: () => version("absurd-sdk"),
  setup: "SDK for TypeScript on one node process; polled every 10 ms instead of 250 ms, claims as many as may run; pool of 32",
  drain,
  latency,
  start: startMany,
});
