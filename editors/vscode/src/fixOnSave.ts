/** Safe fixes when a file is saved. */

import * as vscode from "vscode";

const KIND = vscode.CodeActionKind.SourceFixAll.append("gpulint");
const RESOLVED = 10;

/** The edits of all safe fixes of a document. */
async function safeEdits(document: vscode.TextDocument): Promise<vscode.TextEdit[]> {
  const all = new vscode.Range(0, 0, document.lineCount, 0);
  const actions = await vscode.commands.executeCommand<vscode.CodeAction[]>(
    "vscode.executeCodeActionProvider",
    document.uri,
    all,
    KIND.value,
    RESOLVED,
  );
  return (actions ?? []).flatMap((action) => action.edit?.get(document.uri) ?? []);
}

/** Apply all safe fixes to the document that is shown. */
export async function fixAll(): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  if (document === undefined) {
    return;
  }
  const edit = new vscode.WorkspaceEdit();
  edit.set(document.uri, await safeEdits(document));
  await vscode.workspace.applyEdit(edit);
}

/** Follow the setting `gpulint.fixAllOnSave`. */
export function fixOnSave(): vscode.Disposable {
  return vscode.workspace.onWillSaveTextDocument((event) => {
    const wanted = vscode.workspace.getConfiguration("gpulint", event.document).get<boolean>("fixAllOnSave", false);
    // What VS Code saves by itself while somebody types stays as it was typed.
    if (wanted && event.reason === vscode.TextDocumentSaveReason.Manual) {
      event.waitUntil(safeEdits(event.document));
    }
  });
}
