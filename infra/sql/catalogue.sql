-- Tenants, one row each: found at run time by tenantsFromCatalogue({ database }), which asks every five minutes. Runs on
-- PostgreSQL, SQL Server and SQLite alike. In one database, usually not a tenant's own; its URL is a secret of the
-- functions, because whoever reads this table learns where every tenant is.
--   import { manyTenants, tenantsFromCatalogue } from "oncebox/tenants";

create table "tenants" (
  id varchar(255) not null primary key,
  database_url varchar(2000) not null,
  schema_name varchar(40),
  inbox_table varchar(40),
  outbox_table varchar(40)
);

-- Who reads it needs no more:  grant select on "tenants" to oncebox_functions;

-- Samples: a database of its own; a schema of its own in a shared one; on Azure, by the functions' identity. All tenants
-- of an app are on one kind of database, the one that it is packaged for.
insert into "tenants" (id, database_url, schema_name) values
  ('acme', 'postgres://oncebox_functions@db.example.com/acme?sslmode=verify-full', null),
  ('globex', 'postgres://oncebox_functions@db.example.com/shared?sslmode=verify-full', 'globex'),
  ('initech', 'Server=tcp:sql.example.com,1433;Database=initech;Authentication=Active Directory Integrated;Encrypt=true', null);
