import type { PlainRequest } from "../base/plain-http.js";
import type { Read } from "../service/http/read-fields.js";

/** The parameters of a query. One that is given twice is refused: which of them was meant? */
export function readQuery({ url }: PlainRequest): Read<Readonly<Record<string, string>>> {
  const start = url.indexOf("?");
  const query = new URLSearchParams(start < 0 ? "" : url.slice(start).split("#", 1)[0]);
  const fields: Record<string, string> = Object.create(null);
  for (const [field, value] of query) {
    if (field in fields) {
      const name = field.slice(0, 100).toWellFormed();
      const message = `${name} is given twice.`;
      return { refusal: { code: "InvalidField", message, field: name, logged: {} } };
    }
    fields[field] = value;
  }
  return { value: fields };
}
