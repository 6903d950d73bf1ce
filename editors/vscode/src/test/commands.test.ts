import assert from "node:assert/strict";
import { test } from "node:test";

import { candidates, serverSettings, type Surroundings, versionIn } from "../commands";

const EMPTY: Surroundings = {
  path: [],
  interpreter: "",
  selected: "",
  folders: [],
  platform: "linux",
  exists: () => false,
};
const words = (around: Partial<Surroundings>): string[] =>
  candidates({ ...EMPTY, ...around }).map((command) => command.words.join(" "));

test("without anything known, the PATH is used", () => {
  assert.deepEqual(words({}), ["gpulint", "python3 -m gpulint"]);
  assert.deepEqual(words({ platform: "win32" }), ["gpulint", "python -m gpulint"]);
});

test("what the user names is the only one tried", () => {
  assert.deepEqual(words({ path: ["/opt/gpulint", "--x"], interpreter: "/py", selected: "/other" }), ["/opt/gpulint --x"]);
  assert.deepEqual(words({ interpreter: "${workspaceFolder}/env/python", folders: ["/w"], selected: "/other" }), [
    "/w/env/python -m gpulint",
  ]);
});

test("the selected interpreter comes before environments, these before the PATH", () => {
  const exists = (file: string): boolean => file === "/w/.venv/bin/python";
  assert.deepEqual(words({ selected: "/conda/python", folders: ["/w"], exists }), [
    "/conda/python -m gpulint",
    "/w/.venv/bin/python -m gpulint",
    "gpulint",
    "python3 -m gpulint",
  ]);
});

test("an untrusted workspace has no folders, so that nothing in it is run", () => {
  assert.deepEqual(words({ folders: [], exists: () => true }), ["gpulint", "python3 -m gpulint"]);
});

test("a version is that of gpulint", () => {
  assert.equal(versionIn("gpulint 0.1.0\n"), "0.1.0");
  assert.equal(versionIn("gpulint 1.2.0rc1\n"), "1.2.0rc1");
  assert.equal(versionIn("Python 3.11.2\n"), undefined);
  assert.equal(versionIn(""), undefined);
});

test("the server gets its own settings only", () => {
  const given = { interpreter: "/py", trace: { server: "off" }, select: ["GPU3"], ignore: [], config: "", unsafeFixes: false };
  assert.deepEqual(serverSettings(given), { select: ["GPU3"], unsafeFixes: false });
  assert.deepEqual(serverSettings(null), {});
});
