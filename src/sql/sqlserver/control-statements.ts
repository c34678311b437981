import type { OperatorReadStatements, OperatorStatements } from "../dialect.js";
import { statement } from "../driver.js";
import type { QueueNames } from "../names.js";
import { callProcedure } from "./call-procedure.js";
import { signatures } from "./signatures.js";

export const readControls = (n: QueueNames): OperatorReadStatements["controls"] =>
  callProcedure(n, "controls", "Controls", []);

/** Each changes one control and returns it. */
export function controlStatements(n: QueueNames): Pick<OperatorStatements, "putControl" | "endControl"> {
  const read = callProcedure(n, "control", "Controls", signatures.Controls).text;
  const put = callProcedure(n, "put", "PutControl", signatures.PutControl).text;
  const end = callProcedure(n, "end", "EndControl", signatures.EndControl).text;
  return {
    putControl: statement("put control", `${put};\n${read};`),
    endControl: statement(
      "end control",
      `declare @ended int;\n${end.replace("exec ", "exec @ended = ")};\nif @ended = 1 ${read};`,
    ),
  };
}
