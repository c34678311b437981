import type { QueueNames } from "../../names.js";
import { inboxColumns, keyedInboxColumns } from "../json-functions.js";
import { signatures } from "../signatures.js";
import { keyProcedures } from "./keys.js";
import { alreadyProcessed, mark } from "./mark.js";
import { messagesTable } from "./message-parameters.js";
import { type Procedure, procedure } from "./procedure.js";
import { queueProcedures } from "./queue-procedures.js";
import { receive, scalarInbox } from "./receive.js";

export function inboxProcedures(n: QueueNames): readonly Procedure[] {
  return [
    ...queueProcedures(n),
    ...keyProcedures(n),
    procedure(n, "Receive", signatures.Receive, receive(n, scalarInbox)),
    procedure(
      n,
      "ReceiveMany",
      signatures.ReceiveMany,
      `${messagesTable(n, inboxColumns, "_MessagesFromJson")}\n\n${receive(n, "@messages i")}`,
    ),
    procedure(
      n,
      "ReceiveKeyed",
      signatures.ReceiveKeyed,
      `${messagesTable(n, keyedInboxColumns, "_KeyedMessagesFromJson")}\n\n${receive(n, "@messages i", true)}`,
    ),
    procedure(n, "AlreadyProcessed", signatures.AlreadyProcessed, alreadyProcessed(n)),
    procedure(n, "Mark", signatures.Mark, mark(n)),
  ];
}
