import { forgetAll, remember, remembered } from "./api.js";
import { announcementRegion, element, replaceContent } from "./dom.js";
import { runningRegion } from "./operations.js";
import { choice } from "./parts.js";
import { linkTo, type Route, type ViewName } from "./routes.js";

const links: readonly (readonly [view: ViewName, name: string, isOf: readonly ViewName[]])[] = [
  ["overview", "Overview", []],
  ["dead", "Dead letters", []],
  ["messages", "Messages", ["message"]],
  ["trace", "Find an event", []],
  ["partitions", "Partition keys", []],
  ["pauses", "Pauses", []],
  ["tenants", "Tenants", []],
];

export interface Shell {
  /** Shows a view: its title, its content, and which link is current. */
  show(view: ViewName, title: string, content: readonly Node[]): void;
  focusTitle(): void;
}

/** What stays on the page while views change. */
export function createShell(tenants: readonly string[]): Shell {
  const navigation = element("nav", { class: "views", "aria-label": "Views" });
  const title = element("h1", { tabindex: -1 });
  const content = element("div", { class: "content" });
  document.body.replaceChildren(
    element("a", { class: "skip", href: "#main", on: { click: (event) => skip(event) } }, "Skip to content"),
    element(
      "header",
      {},
      element("a", { class: "brand", href: linkTo("overview") }, "oncebox"),
      navigation,
      element(
        "div",
        { class: "account" },
        tenants.length > 0 && tenantChoice(tenants),
        element("button", { type: "button", class: "quiet", on: { click: () => signOut() } }, "Sign out"),
      ),
    ),
    element("main", { id: "main" }, title, runningRegion(), content),
    announcementRegion(),
  );
  const skip = (event: Event) => {
    event.preventDefault();
    title.focus();
  };
  return {
    show(view, name, nodes) {
      title.textContent = name;
      document.title = `${name} – oncebox`;
      navigation.replaceChildren(
        ...links.map(([one, label, isOf]) =>
          element(
            "a",
            { href: linkTo(one), "aria-current": (one === view || isOf.includes(view)) && "page" },
            label,
          ),
        ),
      );
      replaceContent(content, nodes);
    },
    focusTitle: () => title.focus({ preventScroll: true }),
  };
}

function tenantChoice(tenants: readonly string[]): HTMLElement {
  const first = remembered("tenant") === "" ? ([["", "choose a tenant"]] as const) : [];
  const select = choice(
    "tenant",
    [...first, ...tenants.map((id) => [id, id] as const)],
    remembered("tenant"),
  );
  select.addEventListener("change", () => {
    remember("tenant", select.value);
    location.reload();
  });
  return element("div", { class: "tenant" }, element("label", { for: "tenant" }, "Tenant"), " ", select);
}

function signOut(): void {
  forgetAll();
  location.hash = "#/";
  location.reload();
}

/** One view, as long as it is shown. */
export interface ViewContext {
  readonly route: Route;
  /** Aborted when another view is shown. */
  readonly signal: AbortSignal;
  /** Shows the view again, with fresh data. */
  readonly reload: () => void;
}

export interface View {
  readonly title: string;
  /** Returns what is shown below the title. */
  readonly show: (context: ViewContext) => Promise<readonly Node[]>;
}
