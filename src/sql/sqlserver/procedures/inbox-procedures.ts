import type { QueueNames } from "../../names.js";
import { signatures } from "../signatures.js";
import { keyProcedures } from "./keys.js";
import { alreadyProcessed, mark } from "./mark.js";
import { type Procedure, procedure } from "./procedure.js";
import { queueProcedures } from "./queue-procedures.js";
import { receive } from "./receive.js";

export function inboxProcedures(n: QueueNames): readonly Procedure[] {
  return [
    ...queueProcedures(n),
    ...keyProcedures(n),
    procedure(n, "Receive", signatures.Receive, receive(n), signatures.Receive.slice(2)),
    procedure(n, "AlreadyProcessed", signatures.AlreadyProcessed, alreadyProcessed(n)),
    procedure(n, "Mark", signatures.Mark, mark(n)),
  ];
}
