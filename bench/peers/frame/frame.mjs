// What every peer in JavaScript shares: its command line, its clock, and what it prints.

import { parseArgs } from "node:util";
import { readFileSync } from "node:fs";

/** How long is started, in milliseconds. */
const WHILE = 1500;

export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** The version of an installed package. */
export function version(name) {
  const file = new URL(`node_modules/${name}/package.json`, import.meta.url);
  return JSON.parse(readFileSync(file, "utf8")).version;
}

/** The whole program of a peer: `{version, setup, drain, latency, start}`. */
export async function main(peer) {
  const number = { type: "string" };
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      database: number,
      workflows: number,
      steps: number,
      "in-flight": number,
      connections: number,
      submits: number,
      callers: number,
      apart: { type: "boolean", default: false },
    },
  });
  const task = {
    database: values.database,
    apart: values.apart,
    workflows: Number(values.workflows),
    steps: Number(values.steps),
    inFlight: Number(values["in-flight"]),
    connections: Number(values.connections),
    submits: Number(values.submits),
    callers: Number(values.callers),
  };
  const print = (figure, unit, value) => console.log(JSON.stringify({ figure, unit, value }));
  switch (positionals[0]) {
    case "about":
      console.log(JSON.stringify({ version: peer.version(), setup: peer.setup }));
      break;
    case "drain":
      print("drained", "workflows/s", task.workflows / (await peer.drain(task)));
      break;
    case "latency":
      for (const [figure, value] of await peer.latency(task)) print(figure, "ms", value);
      break;
    case "start":
      print("started", "starts/s", await peer.start(task));
      break;
    default:
      throw new Error(`what is \`${positionals[0]}\`?`);
  }
  process.exit(0);
}

/** Starts all workflows, 64 at a time. Not part of what is measured. */
export async function startAll(task, start) {
  let next = 0;
  const call = async () => {
    while (next < task.workflows) {
      await start(String(next++).padStart(8, "0"));
    }
  };
  await Promise.all(Array.from({ length: 64 }, call));
}

/** Returns when all bodies have ended and nothing is left unsettled. */
export async function allEnded(ended, left) {
  while (!ended()) await pause(2);
  while ((await left()) > 0) await pause(2);
}

/** Submits one workflow after another; `submit` returns when its result was seen, `began` tells when its step began. */
export async function submits(task, began, submit) {
  const [firsts, results] = [[], []];
  for (let at = 0; at < task.submits; at++) {
    // Long enough for the worker to have nothing left to do, and never in step with a poll.
    await pause(20 + ((at * 37) % 200));
    const submitted = performance.now();
    await submit(String(at));
    results.push(performance.now() - submitted);
    firsts.push(began() - submitted);
  }
  const quantile = (values, share) => values.sort((a, b) => a - b)[Math.round((values.length - 1) * share)];
  return [
    ["first step, p50", quantile(firsts, 0.5)],
    ["first step, p99", quantile(firsts, 0.99)],
    ["result, p50", quantile(results, 0.5)],
    ["result, p99", quantile(results, 0.99)],
  ];
}

/** Starts for a while by concurrent callers. How many a second. */
export async function starts(task, start) {
  const began = performance.now();
  let started = 0;
  const call = async (caller) => {
    for (let at = 0; performance.now() - began < WHILE; at++) {
      await start(`${caller}-${at}`);
      started++;
    }
  };
  await Promise.all(Array.from({ length: task.callers }, (_, caller) => call(caller)));
  return (started * 1000) / (performance.now() - began);
}
