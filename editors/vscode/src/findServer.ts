/** Finding a gpulint that runs. */

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import * as vscode from "vscode";

import { candidates, type Command, versionIn } from "./commands";

const LIMIT_MS = 20_000;

/** A command that starts gpulint, and its version. */
export interface Found {
  readonly command: Command;
  readonly version: string;
}

/** The first command that prints a version; undefined if none does. Each attempt is logged. */
export async function findServer(log: vscode.LogOutputChannel): Promise<Found | undefined> {
  const settings = vscode.workspace.getConfiguration("gpulint");
  const trusted = vscode.workspace.isTrusted;
  const folders = vscode.workspace.workspaceFolders?.map((folder) => folder.uri.fsPath) ?? [];
  const commands = candidates({
    path: settings.get<string[]>("path", []),
    interpreter: settings.get<string>("interpreter", ""),
    selected: trusted ? await selectedInterpreter(log) : "",
    folders: trusted ? folders : [],
    platform: process.platform,
    exists: existsSync,
  });
  for (const command of commands) {
    const version = await versionOf(command, log);
    if (version !== undefined) {
      return { command, version };
    }
  }
  return undefined;
}

async function versionOf(command: Command, log: vscode.LogOutputChannel): Promise<string | undefined> {
  const [program, ...words] = command.words;
  return new Promise((resolve) => {
    execFile(program, [...words, "--version"], { timeout: LIMIT_MS }, (error, stdout, stderr) => {
      const version = error ? undefined : versionIn(stdout);
      const outcome = version ?? (error?.message ?? stderr).trim().split("\n").at(-1) ?? "no version";
      log.info(`${command.words.join(" ")} (${command.origin}): ${outcome}`);
      resolve(version);
    });
  });
}

interface PythonApi {
  readonly environments?: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { readonly path: string };
    readonly onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

async function pythonApi(log: vscode.LogOutputChannel): Promise<PythonApi | undefined> {
  const extension = vscode.extensions.getExtension<PythonApi>("ms-python.python");
  try {
    return await extension?.activate();
  } catch (error) {
    log.warn(`the Python extension does not start: ${error}`);
    return undefined;
  }
}

async function selectedInterpreter(log: vscode.LogOutputChannel): Promise<string> {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
  return (await pythonApi(log))?.environments?.getActiveEnvironmentPath(folder).path ?? "";
}

/** Call `changed` when the user selects another interpreter in the Python extension. */
export async function onOtherInterpreter(
  changed: () => void,
  log: vscode.LogOutputChannel,
): Promise<vscode.Disposable | undefined> {
  return (await pythonApi(log))?.environments?.onDidChangeActiveEnvironmentPath(changed);
}
