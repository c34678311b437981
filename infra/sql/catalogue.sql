-- One row for each tenant. tenantsFromCatalogue({ database }) reads them at run time, every five minutes. This script runs
-- on PostgreSQL, SQL Server and SQLite. The table is in one database, usually not a tenant's own. Its URL is a secret of
-- the functions, because this table holds the URL of every tenant's database.
-- Writing to it is owning the functions: a row says where they connect, with their password or identity. `allow` of
-- multiTenant limits that to the hosts that you name.
--   import { multiTenant } from "oncebox/tenants";
--   import { tenantsFromCatalogue } from "oncebox/tenants";

create table "tenants" (
  id varchar(255) not null primary key,
  database_url varchar(2000) not null,
  schema_name varchar(40),
  inbox_table varchar(40),
  outbox_table varchar(40)
);

-- The functions' user needs only this right:  grant select on "tenants" to oncebox_functions;

-- Samples: a tenant with its own database, one with its own schema in a shared database, and one on Azure that the
-- functions' identity may open. An app serves tenants on the kinds of database that it is packaged for.
insert into "tenants" (id, database_url, schema_name) values
  ('acme', 'postgres://oncebox_functions@db.example.com/acme?sslmode=verify-full', null),
  ('globex', 'postgres://oncebox_functions@db.example.com/shared?sslmode=verify-full', 'globex'),
  ('initech', 'Server=tcp:sql.example.com,1433;Database=initech;Authentication=Active Directory Integrated;Encrypt=true', null);
