/** The answer to `gpulint/jobs` as a tree: jobs, their files, and the findings there. No part of this needs VS Code. */

export interface Position {
  readonly line: number;
  readonly character: number;
}

export interface Range {
  readonly start: Position;
  readonly end: Position;
}

export type Impact = "low" | "medium" | "high";

export interface Finding {
  readonly code: string;
  readonly name: string;
  readonly message: string;
  readonly severity: string;
  readonly impact: Impact;
  readonly uri: string;
  readonly range: Range;
  readonly url: string;
}

export interface JobFile {
  readonly uri: string;
  readonly path: string;
  readonly role: "launcher" | "program" | "file";
  readonly findings: readonly Finding[];
}

export interface Job {
  readonly name: string;
  readonly gpus: number | null;
  readonly uri: string;
  readonly range: Range;
  readonly folder: string;
  readonly files: readonly JobFile[];
}

/** One line of the tree. */
export interface Node {
  readonly label: string;
  readonly description: string;
  readonly tooltip: string;
  /** Name of an icon of VS Code, without the dollar sign. */
  readonly icon: string;
  /** Name of the colour of the icon; "" for the usual one. */
  readonly colour: string;
  readonly uri: string;
  readonly range: Range | undefined;
  readonly children: readonly Node[];
  readonly expanded: boolean;
}

const ICONS: Record<Impact, [icon: string, colour: string]> = {
  high: ["error", "list.errorForeground"],
  medium: ["warning", "list.warningForeground"],
  low: ["info", ""],
};
const FILE_ICONS = { launcher: "rocket", program: "file-code", file: "file" } as const;

/** The lines of the tree; jobs stay in the order of the answer. */
export function nodes(jobs: readonly Job[]): Node[] {
  return jobs.map((job) => {
    const count = job.files.reduce((sum, file) => sum + file.findings.length, 0);
    return {
      label: job.name,
      description: `${gpus(job.gpus)}, ${findings(count)}`,
      tooltip: `${job.name}: ${gpus(job.gpus)}, ${findings(count)}`,
      icon: "server-process",
      colour: "",
      uri: job.uri,
      range: job.range,
      children: job.files.map(fileNode),
      expanded: count > 0,
    };
  });
}

function fileNode(file: JobFile): Node {
  const at = file.path.lastIndexOf("/");
  return {
    label: file.path.slice(at + 1),
    description: [file.role === "file" ? "" : file.role, file.path.slice(0, Math.max(at, 0))].filter(Boolean).join(", "),
    tooltip: `${file.path}: ${findings(file.findings.length)}`,
    icon: FILE_ICONS[file.role],
    colour: "",
    uri: file.uri,
    range: undefined,
    children: file.findings.map(findingNode),
    expanded: file.findings.some((finding) => finding.impact !== "low"),
  };
}

function findingNode(finding: Finding): Node {
  const [icon, colour] = ICONS[finding.impact];
  return {
    label: finding.message,
    description: `${finding.code}, line ${finding.range.start.line + 1}`,
    tooltip: `${finding.code} ${finding.name} (${finding.severity}, ${finding.impact} impact): ${finding.message}`,
    icon,
    colour,
    uri: finding.uri,
    range: finding.range,
    children: [],
    expanded: false,
  };
}

function gpus(count: number | null): string {
  return count === null ? "unknown number of GPUs" : count === 1 ? "1 GPU" : `${count} GPUs`;
}

function findings(count: number): string {
  return count === 0 ? "no findings" : count === 1 ? "1 finding" : `${count} findings`;
}
