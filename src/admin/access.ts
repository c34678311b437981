import { nameIn } from "../http/admin-access.js";
import type { Read } from "../http/fields.js";
import { decoded, type PlainRequest } from "../http/plain.js";
import { isOperatorName, operatorRule } from "./page/key-text.js";

const header = "x-oncebox-by";

/** Who asks, for the records: the token's name, and the person that the request names, who is not authenticated. */
export function operatorOf({ headers }: PlainRequest, token: string): Read<string> {
  const given = headers.get(header);
  if (given === null || given === "") return { value: nameIn(token) };
  const person = decoded(given)?.trim() ?? "";
  if (!isOperatorName(person))
    return {
      refusal: {
        code: "InvalidField",
        message: `${header} is percent-encoded, and ${operatorRule}.`,
        field: header,
      },
    };
  return { value: `${nameIn(token)} (${person})` };
}
