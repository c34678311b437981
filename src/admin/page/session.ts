/** What the page remembers until the tab is closed. There are no cookies. */
const names = {
  token: "oncebox-token",
  by: "oncebox-by",
  tenant: "oncebox-tenant",
  sample: "oncebox-sample",
};

export type SessionField = keyof typeof names;

export const remembered = (field: SessionField): string => sessionStorage.getItem(names[field]) ?? "";

export function remember(field: SessionField, value: string): void {
  if (value === "") sessionStorage.removeItem(names[field]);
  else sessionStorage.setItem(names[field], value);
}

export function forgetAll(): void {
  for (const field of Object.keys(names) as SessionField[]) remember(field, "");
}

/** Takes the token out of a link such as `#token=…&sample=…`, and out of the address and the history. */
export function takeFromAddress(): void {
  const given = new URLSearchParams(location.hash.slice(1));
  const token = given.get("token");
  if (token === null) return;
  remember("token", token);
  remember("sample", given.get("sample") ?? "");
  history.replaceState(null, "", `${location.pathname}${location.search}#/`);
}
