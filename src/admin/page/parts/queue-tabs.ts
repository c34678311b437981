import { element } from "../dom.js";
import { linkTo, queueName, queues, type Route } from "../routes.js";

/** Links to the same view of the other queue. */
export const queueTabs = ({ view, queue }: Route): HTMLElement =>
  element(
    "nav",
    { class: "tabs", "aria-label": "Queue" },
    queues.map((one) =>
      element("a", { href: linkTo(view, one), "aria-current": one === queue && "page" }, queueName[one]),
    ),
  );
