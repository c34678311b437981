import type { QueueNames } from "../../names.js";
import { inboxColumns, keyedInboxColumns } from "../json-functions.js";
import { signatures } from "../signatures.js";
import { alreadyProcessed, mark } from "./mark.js";
import { jsonTable } from "./message-parameters.js";
import { type Procedure, procedure } from "./procedure.js";
import { queueProcedures } from "./queue-procedures.js";
import { receive, scalarInbox } from "./receive.js";

export function inboxProcedures(n: QueueNames): readonly Procedure[] {
  return [
    ...queueProcedures(n),
    procedure(n, "Receive", signatures.Receive, receive(n, scalarInbox)),
    procedure(
      n,
      "ReceiveMany",
      signatures.ReceiveMany,
      `${jsonTable(n, inboxColumns)}\n\n${receive(n, "@incoming i")}`,
    ),
    procedure(
      n,
      "ReceiveKeyed",
      signatures.ReceiveKeyed,
      `${jsonTable(n, keyedInboxColumns, "_IncomingKeyed")}\n\n${receive(n, "@incoming i", true)}`,
    ),
    procedure(n, "AlreadyProcessed", signatures.AlreadyProcessed, alreadyProcessed(n)),
    procedure(n, "Mark", signatures.Mark, mark(n)),
  ];
}
