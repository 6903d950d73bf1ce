/** The view "GPU jobs of this workspace". */

import * as vscode from "vscode";
import { type LanguageClient, State } from "vscode-languageclient/node";

import { type Job, type Node, nodes } from "./jobModel";

const METHOD = "gpulint/jobs";
const DELAY_MS = 1500;

export class JobsView implements vscode.TreeDataProvider<Node>, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChangeTreeData = this.changed.event;
  private roots: Node[] = [];
  private timer: NodeJS.Timeout | undefined;
  private request: vscode.CancellationTokenSource | undefined;

  constructor(
    private readonly client: () => LanguageClient | undefined,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  getTreeItem(node: Node): vscode.TreeItem {
    const item = new vscode.TreeItem(
      node.label,
      node.children.length === 0
        ? vscode.TreeItemCollapsibleState.None
        : node.expanded
          ? vscode.TreeItemCollapsibleState.Expanded
          : vscode.TreeItemCollapsibleState.Collapsed,
    );
    item.description = node.description;
    item.tooltip = node.tooltip;
    item.iconPath = new vscode.ThemeIcon(node.icon, node.colour ? new vscode.ThemeColor(node.colour) : undefined);
    const where = node.range;
    const selection = where
      ? new vscode.Range(where.start.line, where.start.character, where.end.line, where.end.character)
      : undefined;
    item.command = { title: "Open", command: "vscode.open", arguments: [vscode.Uri.parse(node.uri), { selection }] };
    return item;
  }

  getChildren(node?: Node): Node[] {
    return node ? [...node.children] : this.roots;
  }

  /** Ask again a while after the last of several changes. */
  refreshSoon(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.refresh(), DELAY_MS);
  }

  /** Ask the server. An answer that a newer text makes useless leaves the view as it is. */
  async refresh(): Promise<void> {
    const client = this.client();
    this.request?.cancel();
    if (client?.state !== State.Running) {
      this.show([]);
      return;
    }
    const request = new vscode.CancellationTokenSource();
    this.request = request;
    try {
      const jobs = await client.sendRequest<Job[]>(METHOD, null, request.token);
      if (!request.token.isCancellationRequested) {
        this.show(nodes(jobs));
      }
    } catch (error) {
      this.log.debug(`${METHOD}: ${error}`);
    } finally {
      request.dispose();
    }
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.request?.cancel();
    this.changed.dispose();
  }

  private show(roots: Node[]): void {
    this.roots = roots;
    this.changed.fire();
  }
}
