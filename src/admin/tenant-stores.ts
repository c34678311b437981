import { type OperatedStores, withOperators } from "../operators/with-operators.js";
import { nameProblem } from "../queue/arguments.js";
import type { AdminOptions } from "./admin-options.js";
import type { Answer } from "./responses.js";

type Found = { readonly value: OperatedStores } | { readonly refusal: Answer };

/** Finds the stores of the tenant that a request names, which an app without tenants refuses. */
export function tenantStores({
  stores,
  tenants,
}: Pick<AdminOptions, "stores" | "tenants">): (tenant: string | undefined) => Promise<Found> {
  return async (tenant) => {
    if (tenants === undefined)
      return tenant === undefined
        ? { value: withOperators(stores!) }
        : refused("InvalidField", "tenant is given, and this app has no tenants.");
    if (tenant === undefined) return refused("MissingField", "tenant is missing: this app has tenants.");
    if (nameProblem(tenant) !== undefined)
      return refused("InvalidField", "tenant is not the id of a tenant.");
    const found = await tenants.find(tenant);
    return found === undefined
      ? { refusal: { notFound: "There is no such tenant." } }
      : { value: withOperators(found) };
  };
}

const refused = (code: "InvalidField" | "MissingField", message: string): Found => ({
  refusal: { badRequest: { code, message, field: "tenant" } },
});
