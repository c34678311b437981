import type { Route } from "./routes.js";

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
