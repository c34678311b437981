import { type Below, change, withoutPort } from "./mutations.js";
import type { SignedDelivery } from "./targets.js";

type Fields = readonly (readonly [string, string])[];

const fieldsOf = ({ body }: SignedDelivery): Fields => [...new URLSearchParams(body.toString())];
const pairs = (fields: Fields) => fields.map((pair) => JSON.stringify(pair));

/** What Twilio signs of a form: names and values, sorted, each pair once, with nothing between them. */
const flat = (fields: Fields): string =>
  [...new Set(pairs(fields))]
    .map((pair) => JSON.parse(pair) as [string, string])
    .sort(([a, x], [b, y]) => (a < b ? -1 : a > b ? 1 : x < y ? -1 : 1))
    .map(([name, value]) => name + value)
    .join("");

/**
 * All that Twilio's signature leaves open. Each of these is signed like the genuine delivery, so no receiver can tell it from
 * one that Twilio has sent.
 */
export const twilioAmbiguities = [
  "the fields are spelled in another way",
  "the fields are in another order",
  "a field is repeated",
  "the border between names and values is moved",
  "the border between the URL and the fields is moved",
  "the port is in the URL, or is not",
  "the host is written in capital letters",
] as const;
export type TwilioAmbiguity = (typeof twilioAmbiguities)[number];

/** Which of them makes the two be signed alike. Undefined where they are not: then none may be accepted. */
export function twilioAmbiguity(
  attack: SignedDelivery,
  genuine: SignedDelivery,
): TwilioAmbiguity | undefined {
  const [given, known] = [fieldsOf(attack), fieldsOf(genuine)];
  const [givenUrl, knownUrl] = [withoutPort(attack.url), withoutPort(genuine.url)];
  const isSameHost = new URL(attack.url).href === genuine.url && attack.body.equals(genuine.body);
  if (isSameHost && givenUrl !== knownUrl) return "the host is written in capital letters";
  if (givenUrl + flat(given) !== knownUrl + flat(known)) return undefined;
  if (givenUrl !== knownUrl) return "the border between the URL and the fields is moved";
  if (attack.url !== genuine.url) return "the port is in the URL, or is not";
  const same = (a: readonly string[], b: readonly string[]) => JSON.stringify(a) === JSON.stringify(b);
  if (same(pairs(given), pairs(known))) return "the fields are spelled in another way";
  if (same(pairs(given).sort(), pairs(known).sort())) return "the fields are in another order";
  const once = (fields: Fields) => [...new Set(pairs(fields))].sort();
  if (same(once(given), once(known))) return "a field is repeated";
  return "the border between names and values is moved";
}

const percent = (text: string): string =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");

/** A change that a form and a URL invite, beside those of single bytes. */
export function twilioMutation(genuine: SignedDelivery, below: Below): SignedDelivery {
  const fields = genuine.body.toString().split("&");
  const at = below(fields.length);
  const [name = "", value = ""] = fields[at]!.split("=");
  const replaced = (...parts: string[]) => fields.toSpliced(at, 1, ...parts).join("&");
  const bodies: readonly (() => string)[] = [
    () => fields.toSorted(() => below(3) - 1).join("&"),
    () => replaced(fields[at]!, fields[at]!),
    () => replaced(),
    () => replaced(`${name}=${value}&${name}=${value}x`),
    () => replaced(`${percent(name)}=${value}`),
    () => replaced(`${name}=${percent(decodeURIComponent(value.replaceAll("+", " ")))}`),
    () => replaced(`${name}=${value.replaceAll("+", "%20")}`),
    () => replaced(`${name}${value.slice(0, 1)}=${value.slice(1)}`),
    () => replaced(`${name.slice(0, -1)}=${name.slice(-1)}${value}`),
    () => replaced(`${name.toLowerCase()}=${value}`),
    () => fields.join(";"),
    () => `${fields.join("&")}&`,
    () => `${fields.join("&")}&x`,
    () => `${fields.join("&")}&=`,
    () => replaced(`${name}=${value}%00`),
    () => replaced(`${name}=${value}%c3%28`),
    () => "",
  ];
  const { url } = genuine;
  const flatText = flat(fieldsOf(genuine));
  const urls: readonly (() => SignedDelivery)[] = [
    () => ({ ...genuine, url: url.replace("://hooks.example.com", "://hooks.example.com:443") }),
    () => ({ ...genuine, url: url.replace("://hooks.example.com", "://hooks.example.com:444") }),
    () => ({ ...genuine, url: url.replace("https:", "http:") }),
    () => ({ ...genuine, url: url.replace("hooks.", "HOOKS.") }),
    () => ({ ...genuine, url: url.replace("?", "/?") }),
    () => ({ ...genuine, url: `${url}&x=1` }),
    () => ({ ...genuine, url: url.replace(/\?.*/, "") }),
    () => ({ ...genuine, url: `${url}#x` }),
    () => ({ ...genuine, url: url.replace("event=1", "event=%31") }),
    () => ({ ...genuine, url: url + encodeURI(flatText), body: Buffer.from("") }),
    () => ({ ...genuine, url: url + flatText.replaceAll("+", "%2B"), body: Buffer.from("") }),
    () => ({
      ...genuine,
      url: url + flatText.slice(0, 10),
      body: Buffer.from(`${encodeURIComponent(flatText.slice(10))}=`),
    }),
  ];
  const choice = below(bodies.length + urls.length + 6);
  if (choice < bodies.length) return { ...genuine, body: Buffer.from(bodies[choice]!()) };
  const other = urls[choice - bodies.length];
  return other === undefined ? { ...genuine, body: change(genuine.body, below) } : other();
}
