import { permanentFailure } from "../dispatch/settlement.js";
import { notSent, type Sent } from "./micro-batch.js";

/**
 * Sends messages together. When the destination refuses the request for its content, sends each message alone and in
 * order, so that only the message at fault fails, and for good.
 */
export async function eachAlone<Item>(
  items: readonly Item[],
  isContentFault: (error: unknown) => boolean,
  send: (items: readonly Item[]) => Promise<readonly Sent[]>,
): Promise<readonly Sent[]> {
  try {
    return await send(items);
  } catch (error) {
    if (!isContentFault(error)) throw error;
    if (items.length === 1)
      return [notSent(permanentFailure(`The destination refuses the message: ${(error as Error).name}.`))];
  }
  const outcomes: Sent[] = [];
  for (const item of items) {
    const [outcome] = await eachAlone([item], isContentFault, send).catch((error) => [notSent(error)]);
    outcomes.push(outcome!);
  }
  return outcomes;
}
