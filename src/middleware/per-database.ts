import type { Database } from "../sql/dialect.js";

/** Makes one store per database, at first use. A middleware may be shared by handlers on several databases. */
export function perDatabase<Store>(make: (db: Database) => Store): (db: Database) => Store {
  const stores = new WeakMap<Database, Store>();
  return (db) => {
    let store = stores.get(db);
    if (store === undefined) {
      store = make(db);
      stores.set(db, store);
    }
    return store;
  };
}
