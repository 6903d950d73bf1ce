import assert from "node:assert/strict";
import { test } from "node:test";

import { type Finding, type Job, nodes } from "../jobModel";

const range = { start: { line: 4, character: 0 }, end: { line: 4, character: 9 } };
const finding: Finding = {
  code: "GPU103",
  name: "fewer-processes-than-gpus",
  message: "8 GPUs requested, 4 processes started",
  severity: "error",
  impact: "high",
  uri: "file:///w/job/job.yaml",
  range,
  url: "https://example.org",
};
const job: Job = {
  name: "train",
  gpus: 8,
  uri: "file:///w/job/job.yaml",
  range,
  folder: "file:///w",
  files: [
    { uri: "file:///w/job/job.yaml", path: "job/job.yaml", role: "launcher", findings: [finding] },
    { uri: "file:///w/train.py", path: "train.py", role: "program", findings: [] },
    { uri: "file:///w/data.py", path: "data.py", role: "file", findings: [{ ...finding, impact: "low" }] },
  ],
};

test("a job leads to its files, and these to findings", () => {
  const [made] = nodes([job]);
  assert.equal(made.label, "train");
  assert.equal(made.description, "8 GPUs, 2 findings");
  assert.deepEqual(
    made.children.map((file) => [file.label, file.description, file.children.length]),
    [
      ["job.yaml", "launcher, job", 1],
      ["train.py", "program", 0],
      ["data.py", "", 1],
    ],
  );
  const [found] = made.children[0].children;
  assert.equal(found.description, "GPU103, line 5");
  assert.deepEqual(found.range, range);
});

test("impact decides the icon, and what is open at first", () => {
  const [made] = nodes([job]);
  assert.equal(made.children[0].children[0].icon, "error");
  assert.equal(made.children[2].children[0].icon, "info");
  assert.deepEqual(made.children.map((file) => file.expanded), [true, false, false]);
});

test("numbers read well", () => {
  const described = (gpus: number | null): string => nodes([{ ...job, gpus, files: [] }])[0].description;
  assert.equal(described(1), "1 GPU, no findings");
  assert.equal(described(null), "unknown number of GPUs, no findings");
});
