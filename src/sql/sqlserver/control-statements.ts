import type { OperatorReadStatements, OperatorStatements } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { callProcedure } from "./call-procedure.js";
import { signatures } from "./signatures.js";

export const readControls = (n: QueueNames): OperatorReadStatements["controls"] =>
  callProcedure(n, "controls", "Controls", signatures.Controls);

export const controlStatements = (n: QueueNames): Pick<OperatorStatements, "putControl" | "endControl"> => ({
  putControl: callProcedure(n, "put control", "PutControl", signatures.PutControl),
  endControl: callProcedure(n, "end control", "EndControl", signatures.EndControl),
});
