import { decoded } from "../base/decoded.js";
import type { PlainRequest } from "../base/plain-http.js";
import type { Read } from "../service/http/read-fields.js";
import { nameIn } from "./admin-tokens.js";

const header = "x-oncebox-by";
const longestPerson = 100;
const rule = `must be a percent-encoded text of 1 to ${longestPerson} characters, without control characters`;

/** Who asks, for the records: the token's name, and the person that the request names, who is not authenticated. */
export function operatorOf({ headers }: PlainRequest, token: string): Read<string> {
  const given = headers.get(header);
  if (given === null || given === "") return { value: nameIn(token) };
  const person = decoded(given)?.trim();
  if (!person || person.length > longestPerson || /\p{Cc}/u.test(person) || !person.isWellFormed())
    return { refusal: { code: "InvalidField", message: `${header} ${rule}.`, field: header } };
  return { value: `${nameIn(token)} (${person})` };
}
