// Only with database: postgres. Azure Database for PostgreSQL without passwords: Entra alone. The migration makes the users
// and gives them their rights (infra/sql/users-postgres.sql).
param serverName string
param databaseName string
@description('Standard_B… is burstable, Standard_D…ds_v5 is not.')
param skuName string
param location string
param tags object
@description('The migration\'s identity. Its name is its user.')
param administratorName string
param administratorId string
@description('A group of people that are administrators, too. Empty: none.')
param groupName string
param groupId string
param workspaceId string
param privateNetworking bool
@description('The built-in PgBouncer, at port 6432.')
param pooler bool

resource server 'Microsoft.DBforPostgreSQL/flexibleServers@2024-08-01' = {
  name: serverName
  location: location
  tags: tags
  sku: {
    name: skuName
    tier: startsWith(skuName, 'Standard_B') ? 'Burstable' : startsWith(skuName, 'Standard_E') ? 'MemoryOptimized' : 'GeneralPurpose'
  }
  properties: {
    createMode: 'Default'
    version: '17'
    authConfig: {
      activeDirectoryAuth: 'Enabled'
      passwordAuth: 'Disabled'
      tenantId: subscription().tenantId
    }
    network: { publicNetworkAccess: privateNetworking ? 'Disabled' : 'Enabled' }
    storage: { storageSizeGB: 32, autoGrow: 'Enabled' }
    backup: { backupRetentionDays: 7, geoRedundantBackup: 'Disabled' }
    highAvailability: { mode: 'Disabled' }
  }
}

// The service changes one part of a server at a time, and refuses another change meanwhile: so each waits for those before it.
// One that is not deployed is waited for by nobody, so nothing waits for such a one alone.
// The server's own defaults, written down: no connection without TLS, and none with an old one.
resource requireTls 'Microsoft.DBforPostgreSQL/flexibleServers/configurations@2024-08-01' = {
  parent: server
  name: 'require_secure_transport'
  properties: { value: 'on', source: 'user-override' }
}

resource tlsVersion 'Microsoft.DBforPostgreSQL/flexibleServers/configurations@2024-08-01' = {
  parent: server
  name: 'ssl_min_protocol_version'
  properties: { value: 'TLSv1.2', source: 'user-override' }
  dependsOn: [requireTls]
}

// Who changed rights or the schema. Not every statement: it would cost more than the functions do, and hold payloads. Who
// signed in, and who failed to, is always logged: log_connections is on and cannot be set.
resource logChanges 'Microsoft.DBforPostgreSQL/flexibleServers/configurations@2024-08-01' = {
  parent: server
  name: 'log_statement'
  properties: { value: 'ddl', source: 'user-override' }
  dependsOn: [tlsVersion]
}

resource pooling 'Microsoft.DBforPostgreSQL/flexibleServers/configurations@2024-08-01' = if (pooler) {
  parent: server
  name: 'pgbouncer.enabled'
  properties: { value: 'true', source: 'user-override' }
  dependsOn: [logChanges]
}

// 0.0.0.0 stands for Azure's own addresses. They still have to sign in.
resource azureMayConnect 'Microsoft.DBforPostgreSQL/flexibleServers/firewallRules@2024-08-01' = if (!privateNetworking) {
  parent: server
  name: 'azure'
  properties: { startIpAddress: '0.0.0.0', endIpAddress: '0.0.0.0' }
  dependsOn: [logChanges, pooling]
}

// Not at once after the server: for a while it is made but takes no administrator
// (AadAuthOperationCannotBePerformedWhenServerIsNotAccessible).
resource migration 'Microsoft.DBforPostgreSQL/flexibleServers/administrators@2024-08-01' = {
  parent: server
  name: administratorId
  properties: {
    principalName: administratorName
    principalType: 'ServicePrincipal'
    tenantId: subscription().tenantId
  }
  dependsOn: [logChanges, pooling, azureMayConnect]
}

resource people 'Microsoft.DBforPostgreSQL/flexibleServers/administrators@2024-08-01' = if (!empty(groupId)) {
  parent: server
  name: empty(groupId) ? 'none' : groupId
  properties: {
    principalName: groupName
    principalType: 'Group'
    tenantId: subscription().tenantId
  }
  dependsOn: [migration]
}

// After the administrators: while there are none, a new database belongs to Azure itself, and nobody may change it.
resource database 'Microsoft.DBforPostgreSQL/flexibleServers/databases@2024-08-01' = {
  parent: server
  name: databaseName
  properties: { charset: 'UTF8', collation: 'en_US.utf8' }
  dependsOn: [migration, people]
}

resource log 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'audit'
  scope: server
  properties: {
    workspaceId: workspaceId
    logs: [{ category: 'PostgreSQLLogs', enabled: true }]
  }
}

output serverId string = server.id
output server string = server.properties.fullyQualifiedDomainName
output database string = database.name
