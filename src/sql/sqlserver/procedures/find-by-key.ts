import type { QueueNames } from "../../names.js";
import { indented } from "./procedure.js";

/** The look-up by the natural key. Without the name, a plan made while the table was empty would scan it. */
export const keyIndex = (n: QueueNames): string => `index(${n.bare("_Key")})`;

/** What the natural key is called in the parameters and in the table of messages. */
export const isKeyOf = (n: QueueNames, m = "m"): string =>
  n.kind === "inbox" ? `${m}.source = @source and ${m}.message_id = @message_id` : `${m}.id = @id`;

/**
 * Finds the known messages and inserts the others, in a transaction of `atOwnLevel`. When another call inserts the same key in between, the insert waits for
 * it and fails. In a transaction of its own the procedure fails too, and the caller's retry finds the message. A caller's
 * transaction must not be doomed by that: XACT_ABORT is off for the insert, and the next round finds what the other call
 * has committed. A range lock would prevent all this, but would also make every new key wait for its neighbour.
 */
export const findOrInsert = (
  find: string,
  insert: string,
): string => `declare @rounds int = 0, @again bit = 1;

while @again = 1
begin
  set @again = 0;

${indented(find)}

  begin try
    if @outermost = 0 set xact_abort off;

${indented(indented(insert))}
  end try
  begin catch
    set @rounds = @rounds + 1;
    if @outermost = 1 or @rounds = 10 or error_number() not in (2601, 2627)
    begin; throw; end;
    set @again = 1;
  end catch;

  set xact_abort on;
end`;
