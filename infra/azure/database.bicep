// Only with database: sqlserver. Azure SQL without passwords: Entra alone. The migration makes the users and gives them
// their rights (infra/sql/users-sqlserver.sql).
param serverName string
param databaseName string
param skuName string
param autoPauseMinutes int
param location string
param tags object
param administratorName string
@description('The object id of a user or group, the client id of an application.')
param administratorId string
param administratorType string
param workspaceId string
param privateNetworking bool

resource server 'Microsoft.Sql/servers@2023-08-01' = {
  name: serverName
  location: location
  tags: tags
  properties: {
    version: '12.0'
    minimalTlsVersion: '1.2'
    publicNetworkAccess: privateNetworking ? 'Disabled' : 'Enabled'
    administrators: {
      administratorType: 'ActiveDirectory'
      azureADOnlyAuthentication: true
      login: administratorName
      sid: administratorId
      principalType: administratorType
      tenantId: subscription().tenantId
    }
  }
}

// Only the serverless tier (GP_S_…) pauses. A call that finds it paused waits until it has resumed.
resource database 'Microsoft.Sql/servers/databases@2023-08-01' = {
  parent: server
  name: databaseName
  location: location
  tags: tags
  sku: { name: skuName }
  properties: {
    autoPauseDelay: startsWith(skuName, 'GP_S_') ? autoPauseMinutes : null
    requestedBackupStorageRedundancy: 'Local'
  }
}

// 0.0.0.0 stands for Azure's own addresses. They still have to sign in.
resource azureMayConnect 'Microsoft.Sql/servers/firewallRules@2023-08-01' = if (!privateNetworking) {
  parent: server
  name: 'azure'
  properties: { startIpAddress: '0.0.0.0', endIpAddress: '0.0.0.0' }
}

// Who signed in, who failed to, and who changed rights or the schema. Not every statement: it would cost more than the
// functions do.
resource auditing 'Microsoft.Sql/servers/auditingSettings@2023-08-01' = {
  parent: server
  name: 'default'
  properties: {
    state: 'Enabled'
    isAzureMonitorTargetEnabled: true
    auditActionsAndGroups: [
      'FAILED_DATABASE_AUTHENTICATION_GROUP'
      'SUCCESSFUL_DATABASE_AUTHENTICATION_GROUP'
      'DATABASE_PERMISSION_CHANGE_GROUP'
      'DATABASE_OBJECT_PERMISSION_CHANGE_GROUP'
      'DATABASE_PRINCIPAL_CHANGE_GROUP'
      'DATABASE_ROLE_MEMBER_CHANGE_GROUP'
      'SCHEMA_OBJECT_CHANGE_GROUP'
    ]
  }
}

// The server's audit is a log of its master database.
resource master 'Microsoft.Sql/servers/databases@2023-08-01' existing = {
  parent: server
  name: 'master'
}

resource auditLog 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'audit'
  scope: master
  properties: {
    workspaceId: workspaceId
    logs: [{ category: 'SQLSecurityAuditEvents', enabled: true }]
  }
  dependsOn: [database]
}

output serverId string = server.id
output server string = server.properties.fullyQualifiedDomainName
output database string = database.name
