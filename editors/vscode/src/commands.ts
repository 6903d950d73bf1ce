/** Which command starts gpulint: what the user set, else what is found, in a fixed order. No part of this needs VS Code. */

import * as path from "node:path";

/** A program with its arguments, and where it comes from, for the log. */
export interface Command {
  readonly words: readonly string[];
  readonly origin: string;
}

/** What is known of the window. */
export interface Surroundings {
  /** The setting `gpulint.path`. */
  readonly path: readonly string[];
  /** The setting `gpulint.interpreter`. */
  readonly interpreter: string;
  /** The interpreter that the Python extension has selected; "" if there is none. */
  readonly selected: string;
  /** Workspace folders; empty where the workspace is not trusted, as their files must not be run then. */
  readonly folders: readonly string[];
  readonly platform: NodeJS.Platform;
  readonly exists: (file: string) => boolean;
}

const ENVIRONMENTS = [".venv", "venv"];

/** Commands to try, best first. Where the user named one, no other is tried: a wrong setting must not go unseen. */
export function candidates(around: Surroundings): Command[] {
  if (around.path.length > 0) {
    return [{ words: around.path, origin: "setting gpulint.path" }];
  }
  if (around.interpreter !== "") {
    return [moduleOf(expandFolder(around.interpreter, around.folders), "setting gpulint.interpreter")];
  }
  const found: Command[] = [];
  if (around.selected !== "") {
    found.push(moduleOf(around.selected, "interpreter of the Python extension"));
  }
  for (const folder of around.folders) {
    for (const environment of ENVIRONMENTS) {
      const python = interpreterIn(path.join(folder, environment), around.platform);
      if (around.exists(python)) {
        found.push(moduleOf(python, `environment ${environment} of the workspace`));
      }
    }
  }
  found.push({ words: ["gpulint"], origin: "PATH" });
  found.push(moduleOf(around.platform === "win32" ? "python" : "python3", "Python on the PATH"));
  return found;
}

function moduleOf(python: string, origin: string): Command {
  return { words: [python, "-m", "gpulint"], origin };
}

function interpreterIn(environment: string, platform: NodeJS.Platform): string {
  return platform === "win32"
    ? path.join(environment, "Scripts", "python.exe")
    : path.join(environment, "bin", "python");
}

/** `${workspaceFolder}` in a setting stands for the first folder. */
function expandFolder(text: string, folders: readonly string[]): string {
  return folders.length > 0 ? text.replaceAll("${workspaceFolder}", folders[0]) : text;
}

/** The version in what `gpulint --version` prints; undefined if it is something else. */
export function versionIn(output: string): string | undefined {
  return /^gpulint (\d+\.\d+\S*)\s*$/m.exec(output)?.[1];
}

/** Keys of the section `gpulint` that the server knows; it warns of all others. */
export const SERVER_KEYS = [
  "select",
  "extendSelect",
  "ignore",
  "severity",
  "config",
  "unsafeFixes",
  "showSyntaxErrors",
] as const;

/** The part of the section `gpulint` that is for the server, without what has its default. */
export function serverSettings(section: unknown): Record<string, unknown> {
  const given = (typeof section === "object" && section !== null ? section : {}) as Record<string, unknown>;
  return Object.fromEntries(
    SERVER_KEYS.filter((key) => !isUnset(given[key])).map((key) => [key, given[key]]),
  );
}

function isUnset(value: unknown): boolean {
  return value === undefined || value === null || value === "" || (Array.isArray(value) && value.length === 0);
}
