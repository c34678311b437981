import { api, onRefusedToken, remember, remembered, takeFromAddress } from "./api.js";
import { element, isAbort, reasonOf } from "./dom.js";
import { linkTo, parseRoute, type ViewName } from "./routes.js";
import { createShell, type Shell, type View } from "./shell.js";
import { deadLetters } from "./views/dead-letters.js";
import { message } from "./views/message.js";
import { messages } from "./views/messages.js";
import { overview } from "./views/overview.js";
import { partitions } from "./views/partitions.js";
import { pauses } from "./views/pauses.js";
import { checkToken, signIn } from "./views/sign-in.js";
import { tenants } from "./views/tenants.js";
import { trace } from "./views/trace.js";

const views: Readonly<Record<ViewName, View>> = {
  overview,
  dead: deadLetters,
  messages,
  message,
  trace,
  partitions,
  pauses,
  tenants,
};

/** Resolves when there is a token that the server accepts. */
async function signedIn(problem = ""): Promise<void> {
  if (remembered("token") !== "" && problem === "") {
    try {
      return await checkToken();
    } catch (error) {
      return signedIn(reasonOf(error));
    }
  }
  remember("token", "");
  document.title = "Sign in – oncebox";
  await signIn((form) => document.body.replaceChildren(element("main", {}, form)), problem);
}

/** Shows the view that the address names, whenever that changes. Where there are tenants, one is chosen first. */
function showViews(shell: Shell, hasTenants: boolean): void {
  let current = new AbortController();
  const show = async (isNew: boolean) => {
    current.abort();
    current = new AbortController();
    const { signal } = current;
    const isChosen = !hasTenants || remembered("tenant") !== "";
    const route = parseRoute(isChosen ? location.hash : linkTo("tenants"));
    const { title, show: content } = views[route.view];
    const reload = () => void show(false);
    const nodes = await content({ route, signal, reload }).catch((error: unknown) => {
      if (isAbort(error)) return undefined;
      return [failure(reasonOf(error), reload)];
    });
    if (nodes === undefined || signal.aborted) return;
    shell.show(route.view, title, nodes);
    if (isNew) shell.focusTitle();
    else if (document.activeElement === document.body) shell.focusTitle(); // the focused element is gone
  };
  window.onhashchange = () => {
    if (!location.hash.startsWith("#token=")) return void show(true);
    takeFromAddress();
    location.reload();
  };
  onRefusedToken((reason) => {
    current.abort();
    void start(reason);
  });
  void show(true);
}

const failure = (reason: string, retry: () => void): HTMLElement =>
  element(
    "div",
    { class: "card", role: "alert" },
    element("p", {}, reason),
    element("button", { type: "button", class: "primary", on: { click: retry } }, "Try again"),
  );

async function start(problem = ""): Promise<void> {
  window.onhashchange = null;
  onRefusedToken(() => {});
  await signedIn(problem);
  const known = await api.tenants({}).catch(() => ({ tenants: [] }));
  const ids = known.tenants.map(({ tenant }) => tenant);
  showViews(createShell(ids), ids.length > 0);
}

takeFromAddress();
void start();
