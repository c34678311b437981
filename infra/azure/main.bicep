// Azure: a resource group with a function app for each group of functions, and all that they need. `azd up`, or
// docs/deploy-azure.md step by step.
targetScope = 'subscription'

@minLength(2)
@maxLength(20)
@description('The app, in lower-case letters, digits and hyphens. Part of every name, so that two in one subscription are apart.')
param applicationName string = 'oncebox'

@minLength(2)
@maxLength(20)
@description('The environment: dev, prod. Part of every name.')
param environmentName string

@description('The region, which must have Flex Consumption.')
param location string

@allowed(['sqlserver', 'postgres', 'none'])
@description('sqlserver makes an Azure SQL database, postgres one of Azure Database for PostgreSQL. none makes no database: put the URLs of yours into the vault.')
param database string = 'sqlserver'

@description('The administrator of the database: the name of an Entra group that the migration\'s identity is a member of. Empty: the identity itself. In PostgreSQL both are.')
param sqlAdministratorName string = ''

@description('The object id of that group.')
param sqlAdministratorId string = ''

@allowed(['one', 'catalogue', 'key-vault'])
@description('Many tenants: in a table of the database, or in a vault of their own. The app must define the same.')
param tenants string = 'one'

@description('The address that gets the alerts. Empty: no email is sent.')
param alertEmail string = ''

@description('Database, vault and storage are reached by private endpoints alone.')
param privateNetworking bool = true

@description('Requests to webhooks a minute from one address, beyond which Front Door refuses them. 0: no Front Door.')
@minValue(0)
param clientRequestsPerMinute int = 0

@description('Of each group of functions that the platform scales: the HTTP functions of an app, and each queue\'s function. docs/deploy-azure.md has the connections to the database that follow from it.')
@minValue(40)
@maxValue(1000)
param maximumInstanceCount int = 40

@allowed([512, 2048, 4096])
param instanceMemoryMB int = 512

@description('Instances that are always ready for webhooks, so that no sender waits for a cold start. They cost by the hour.')
@minValue(0)
@maxValue(20)
param alwaysReadyCount int = 0

@allowed(['Recreate', 'RollingUpdate'])
@description('Recreate ends running functions at a deployment. RollingUpdate lets them finish; it is a preview.')
param updateStrategy string = 'Recreate'

@description('The size of Azure SQL: S0, S1 … by DTU, GP_Gen5_2 … by cores, GP_S_Gen5_2 … by cores in use. Of PostgreSQL: Standard_B2ms, Standard_D2ds_v5 … Empty: S0, or Standard_B2ms.')
param databaseSku string = ''

@description('A serverless database (GP_S_…) pauses after so many minutes without a session; -1 for never. It can only pause when no timer polls it meanwhile: docs/deploy-azure.md has the schedules for it.')
param databaseAutoPauseMinutes int = -1

@description('The functions connect to PostgreSQL by its built-in PgBouncer, which takes more connections; the migration does not. Not with Standard_B… sizes.')
param databasePooler bool = false

@description('Between two reaps. With thousands of tenants 10: docs/scale.md has the cost of each value.')
@allowed([1, 5, 10, 15, 30])
param reapMinutes int = 1

@description('The inbox as a service, /v1/inbox: a function app of its own, with its identity, token secret and alerts. The app must define the service.')
param service bool = false

@description('The diagnostics API and the admin page, /_oncebox: a function app of its own, with its identity, token secret and alerts. The app must define admin.')
param admin bool = false

@description('A service that exchanges messages with others, /_rf: a function app of its own, with its identity, secrets, queue and alerts. functions/azure/main.ts must import messages.js.')
param messaging bool = false

@description('With messaging: where the service shop receives, such as https://shop.example/_rf/receive.')
param shopAddress string = ''

@description('GitHub is asked for failed deliveries of these webhooks, each quarter of an hour: acme/shop:123456789, or acme:123456789 of an organization, with commas between them. Empty: it is not.')
param githubHooks string = ''

@description('A queue of Service Bus that other services fill, beside the one of Storage.')
param serviceBus bool = false

@description('A message that has been due for longer raises an alert.')
param oldestAgeMs int = 300000

param logRetentionDays int = 30

@description('Dead messages are deleted so many days after their death. 0: as the app says (deadRetentionMs), and else never.')
@minValue(0)
@maxValue(366)
param deadRetentionDays int = 0

@description('For production: nobody can purge the vault, so after `azd down` its name stays taken for 90 days.')
param purgeProtection bool = false

@description('Once, after `azd down`: takes the deleted vault back instead of making one.')
param recoverVault bool = false

@description('The identities of the function apps may write their archives at all times, and hooks.mjs need not give them the right.')
param keepDeploymentRights bool = false

var tags = { 'azd-env-name': environmentName }
var name = '${applicationName}-${environmentName}'
var suffix = uniqueString(subscription().id, applicationName, environmentName, location)
var hasSqlServer = database == 'sqlserver'
var hasGithub = !empty(githubHooks)
var hasPostgres = database == 'postgres'
var makesDatabase = hasSqlServer || hasPostgres
var hasFrontDoor = clientRequestsPerMinute > 0

resource group 'Microsoft.Resources/resourceGroups@2024-03-01' = {
  name: 'rg-${name}'
  location: location
  tags: tags
}

module webhookIdentity 'identity.bicep' = {
  name: 'identity-webhook'
  scope: group
  params: { name: 'id-${name}-webhook', location: location, tags: tags }
}

module workIdentity 'identity.bicep' = {
  name: 'identity-work'
  scope: group
  params: { name: 'id-${name}-work', location: location, tags: tags }
}

module migrateIdentity 'identity.bicep' = {
  name: 'identity-migrate'
  scope: group
  params: { name: 'id-${name}-migrate', location: location, tags: tags }
}

module serviceIdentity 'identity.bicep' = if (service) {
  name: 'identity-service'
  scope: group
  params: { name: 'id-${name}-service', location: location, tags: tags }
}

module adminIdentity 'identity.bicep' = if (admin) {
  name: 'identity-admin'
  scope: group
  params: { name: 'id-${name}-admin', location: location, tags: tags }
}

module messagingIdentity 'identity.bicep' = if (messaging) {
  name: 'identity-messaging'
  scope: group
  params: { name: 'id-${name}-messaging', location: location, tags: tags }
}

// The apps that find tenants. The migration finds them too, to migrate their databases. The inbox service and messages do not.
var tenantReaders = concat(
  [
    webhookIdentity.outputs.principalId
    workIdentity.outputs.principalId
    migrateIdentity.outputs.principalId
  ],
  admin ? [adminIdentity!.outputs.principalId] : []
)

module network 'network.bicep' = if (privateNetworking) {
  name: 'network'
  scope: group
  params: { name: 'vnet-${name}', location: location, tags: tags }
}

module monitoring 'monitoring.bicep' = {
  name: 'monitoring'
  scope: group
  params: { name: name, location: location, tags: tags, retentionDays: logRetentionDays }
}

module deployments 'deployments.bicep' = {
  name: 'deployments'
  scope: group
  params: { name: 'std${suffix}', location: location, tags: tags, privateNetworking: privateNetworking }
}

module queues 'queues.bicep' = {
  name: 'queues'
  scope: group
  params: {
    name: 'stq${suffix}'
    location: location
    tags: tags
    workPrincipalId: workIdentity.outputs.principalId
    senderPrincipalIds: [webhookIdentity.outputs.principalId]
    messagingPrincipalId: messaging ? messagingIdentity!.outputs.principalId : ''
    privateNetworking: privateNetworking
  }
}

module bus 'service-bus.bicep' = if (serviceBus) {
  name: 'service-bus'
  scope: group
  params: {
    name: 'sb-${applicationName}-${suffix}'
    location: location
    tags: tags
    workPrincipalId: workIdentity.outputs.principalId
  }
}

// Which identity reads which secret. A database URL is a secret only where this deployment makes no database.
var urlReaders = makesDatabase
  ? []
  : concat(
      [
        { secret: 'database-url', principalId: webhookIdentity.outputs.principalId }
        { secret: 'database-url', principalId: workIdentity.outputs.principalId }
        { secret: 'owner-database-url', principalId: migrateIdentity.outputs.principalId }
      ],
      service ? [{ secret: 'database-url', principalId: serviceIdentity!.outputs.principalId }] : [],
      admin ? [{ secret: 'admin-database-url', principalId: adminIdentity!.outputs.principalId }] : [],
      messaging ? [{ secret: 'messaging-database-url', principalId: messagingIdentity!.outputs.principalId }] : []
    )
var secretReaders = concat(
  [{ secret: 'stripe-webhook-secret', principalId: webhookIdentity.outputs.principalId }],
  service ? [{ secret: 'inbox-service-tokens', principalId: serviceIdentity!.outputs.principalId }] : [],
  admin ? [{ secret: 'admin-tokens', principalId: adminIdentity!.outputs.principalId }] : [],
  messaging
    ? [
        { secret: 'messaging-shop', principalId: messagingIdentity!.outputs.principalId }
        { secret: 'messaging-tokens', principalId: messagingIdentity!.outputs.principalId }
      ]
    : [],
  hasGithub ? [{ secret: 'github-token', principalId: workIdentity.outputs.principalId }] : [],
  urlReaders
)
var secretNames = concat(
  ['stripe-webhook-secret'],
  service ? ['inbox-service-tokens'] : [],
  admin ? ['admin-tokens'] : [],
  messaging ? ['messaging-shop', 'messaging-tokens'] : [],
  hasGithub ? ['github-token'] : [],
  makesDatabase ? [] : ['database-url', 'owner-database-url'],
  !makesDatabase && admin ? ['admin-database-url'] : [],
  !makesDatabase && messaging ? ['messaging-database-url'] : []
)

module vault 'key-vault.bicep' = {
  name: 'vault'
  scope: group
  params: {
    name: 'kv-${suffix}'
    location: location
    tags: tags
    secretNames: secretNames
    grants: secretReaders
    workspaceId: monitoring.outputs.workspaceId
    privateNetworking: privateNetworking
    purgeProtection: purgeProtection
    recover: recoverVault
  }
}

module tenantsVault 'tenants-vault.bicep' = if (tenants == 'key-vault') {
  name: 'tenants-vault'
  scope: group
  params: {
    name: 'kvt-${suffix}'
    location: location
    tags: tags
    readerPrincipalIds: tenantReaders
    workspaceId: monitoring.outputs.workspaceId
    privateNetworking: privateNetworking
    purgeProtection: purgeProtection
    recover: recoverVault
  }
}

module sqlServer 'database.bicep' = if (hasSqlServer) {
  name: 'database'
  scope: group
  params: {
    serverName: 'sql-${applicationName}-${suffix}'
    databaseName: 'oncebox'
    skuName: empty(databaseSku) ? 'S0' : databaseSku
    autoPauseMinutes: databaseAutoPauseMinutes
    location: location
    tags: tags
    administratorName: empty(sqlAdministratorId) ? migrateIdentity.outputs.name : sqlAdministratorName
    administratorId: empty(sqlAdministratorId) ? migrateIdentity.outputs.clientId : sqlAdministratorId
    administratorType: empty(sqlAdministratorId) ? 'Application' : 'Group'
    workspaceId: monitoring.outputs.workspaceId
    privateNetworking: privateNetworking
  }
}

module postgres 'postgres.bicep' = if (hasPostgres) {
  name: 'postgres'
  scope: group
  params: {
    serverName: 'psql-${applicationName}-${suffix}'
    databaseName: 'oncebox'
    skuName: empty(databaseSku) ? 'Standard_B2ms' : databaseSku
    location: location
    tags: tags
    administratorName: migrateIdentity.outputs.name
    administratorId: migrateIdentity.outputs.principalId
    groupName: sqlAdministratorName
    groupId: sqlAdministratorId
    workspaceId: monitoring.outputs.workspaceId
    privateNetworking: privateNetworking
    pooler: databasePooler
  }
}

var sqlServerName = hasSqlServer ? sqlServer!.outputs.server : ''
var sqlDatabaseName = hasSqlServer ? sqlServer!.outputs.database : ''
var postgresName = hasPostgres ? postgres!.outputs.server : ''
var postgresDatabaseName = hasPostgres ? postgres!.outputs.database : ''
// The drivers sign in as the identity that AZURE_CLIENT_ID names, which every app has. In PostgreSQL its name is its user.
var sqlUrl = 'Server=tcp:${sqlServerName},1433;Database=${sqlDatabaseName};Authentication=Active Directory Integrated;Encrypt=true'
var postgresTarget = '${postgresName}/${postgresDatabaseName}?authentication=entra&sslmode=verify-full'
// docs/poolers.md says why nothing is prepared through it
var pooledTarget = databasePooler ? '${postgresName}:6432/${postgresDatabaseName}?authentication=entra&sslmode=verify-full&prepare=false' : postgresTarget
var vaultUrl = vault.outputs.url
var secretUrl = '{"from":"azure-key-vault","vault":"${vaultUrl}","name":"database-url"}'
var webhookUrl = hasSqlServer ? sqlUrl : (hasPostgres ? 'postgres://${webhookIdentity.outputs.name}@${pooledTarget}' : secretUrl)
var workUrl = hasSqlServer ? sqlUrl : (hasPostgres ? 'postgres://${workIdentity.outputs.name}@${pooledTarget}' : secretUrl)
var migrateUrl = hasSqlServer
  ? sqlUrl
  : (hasPostgres ? 'postgres://${migrateIdentity.outputs.name}@${postgresTarget}' : '{"from":"azure-key-vault","vault":"${vaultUrl}","name":"owner-database-url"}')
var serviceUser = service ? serviceIdentity!.outputs.name : ''
var serviceUrl = hasSqlServer ? sqlUrl : (hasPostgres ? 'postgres://${serviceUser}@${pooledTarget}' : secretUrl)
var adminUser = admin ? adminIdentity!.outputs.name : ''
var adminUrl = hasSqlServer
  ? sqlUrl
  : (hasPostgres ? 'postgres://${adminUser}@${pooledTarget}' : '{"from":"azure-key-vault","vault":"${vaultUrl}","name":"admin-database-url"}')
var messagingUser = messaging ? messagingIdentity!.outputs.name : ''
var messagingUrl = hasSqlServer
  ? sqlUrl
  : (hasPostgres ? 'postgres://${messagingUser}@${pooledTarget}' : '{"from":"azure-key-vault","vault":"${vaultUrl}","name":"messaging-database-url"}')
// The catalogue is in the deployment's own database, if it makes one.
var hasCatalogue = tenants == 'catalogue' && makesDatabase
var tenantSettings = tenants == 'key-vault' ? { TENANTS_VAULT_URL: tenantsVault!.outputs.url } : {}
var queueSettings = {
  ONCEBOX_QUEUES__queueServiceUri: queues.outputs.url
  ONCEBOX_QUEUES__credential: 'managedidentity'
  ONCEBOX_WAKE_QUEUE: queues.outputs.wakeUpQueue
}
var databaseUsers = concat(
  [
    { name: webhookIdentity.outputs.name, role: 'oncebox_receivers', clientId: webhookIdentity.outputs.clientId, objectId: webhookIdentity.outputs.principalId }
    { name: workIdentity.outputs.name, role: 'oncebox_functions', clientId: workIdentity.outputs.clientId, objectId: workIdentity.outputs.principalId }
  ],
  service
    ? [{ name: serviceIdentity!.outputs.name, role: 'oncebox_service', clientId: serviceIdentity!.outputs.clientId, objectId: serviceIdentity!.outputs.principalId }]
    : [],
  admin
    ? [{ name: adminIdentity!.outputs.name, role: 'oncebox_operators', clientId: adminIdentity!.outputs.clientId, objectId: adminIdentity!.outputs.principalId }]
    : [],
  messaging
    ? [{ name: messagingIdentity!.outputs.name, role: 'oncebox_messaging', clientId: messagingIdentity!.outputs.clientId, objectId: messagingIdentity!.outputs.principalId }]
    : []
)

var webhookSettings = union(queueSettings, tenantSettings, hasCatalogue ? { ONCEBOX_CATALOGUE_URL: webhookUrl } : {}, {
  ONCEBOX_DATABASE_URL: webhookUrl
  ONCEBOX_QUEUES__clientId: webhookIdentity.outputs.clientId
  ONCEBOX_WEBHOOKS: '{"stripe":{"scheme":"stripe","secrets":[{"from":"azure-key-vault","vault":"${vaultUrl}","name":"stripe-webhook-secret"}]}}'
})
var workSettings = union(queueSettings, tenantSettings, hasCatalogue ? { ONCEBOX_CATALOGUE_URL: workUrl } : {}, {
  ONCEBOX_DATABASE_URL: workUrl
  ONCEBOX_QUEUES__clientId: workIdentity.outputs.clientId
  ONCEBOX_CONSUME_QUEUE: queues.outputs.incomingQueue
  ONCEBOX_REAP_SCHEDULE: '35 */${reapMinutes} * * * *' // half a minute from the dispatcher's
  ONCEBOX_DEAD_RETENTION_DAYS: string(deadRetentionDays)
})
var githubSettings = {
  ONCEBOX_RECOVER_GITHUB: githubHooks
  ONCEBOX_GITHUB_TOKEN: '{"from":"azure-key-vault","vault":"${vaultUrl}","name":"github-token"}'
}
var busSettings = {
  ONCEBOX_CONSUME_BUS_QUEUE: serviceBus ? bus!.outputs.queue : ''
  ONCEBOX_BUS__fullyQualifiedNamespace: serviceBus ? bus!.outputs.hostName : ''
  ONCEBOX_BUS__credential: 'managedidentity'
  ONCEBOX_BUS__clientId: workIdentity.outputs.clientId
}
var migrateSettings = union(tenantSettings, hasCatalogue ? { ONCEBOX_CATALOGUE_URL: migrateUrl } : {}, {
  ONCEBOX_DATABASE_URL: migrateUrl
  ONCEBOX_DATABASE_USERS: makesDatabase ? string(databaseUsers) : '[]'
  ONCEBOX_MESSAGING: string(messaging) // the tables of a service, too
})
// One token on each line of the secret, so that two are valid during a rotation.
var serviceSettings = union(tenantSettings, hasCatalogue ? { ONCEBOX_CATALOGUE_URL: serviceUrl } : {}, {
  ONCEBOX_DATABASE_URL: serviceUrl
  INBOX_SERVICE_TOKENS: '{"from":"azure-key-vault","vault":"${vaultUrl}","name":"inbox-service-tokens"}'
})
// One token on each line of the secret, each name:secret.
var adminSettings = union(tenantSettings, hasCatalogue ? { ONCEBOX_CATALOGUE_URL: adminUrl } : {}, {
  ONCEBOX_DATABASE_URL: adminUrl
  ONCEBOX_ADMIN_TOKENS: '{"from":"azure-key-vault","vault":"${vaultUrl}","name":"admin-tokens"}'
})

// One secret on each line, and one token. What the two services share is base64 of 16 bytes or more.
var messagingSettings = {
  ONCEBOX_DATABASE_URL: messagingUrl
  ONCEBOX_QUEUES__queueServiceUri: queues.outputs.url
  ONCEBOX_QUEUES__credential: 'managedidentity'
  ONCEBOX_QUEUES__clientId: messaging ? messagingIdentity!.outputs.clientId : ''
  ONCEBOX_MESSAGE_WAKE_QUEUE: queues.outputs.messageWakeUpQueue
  SHOP_ADDRESS: shopAddress
  SHOP_SECRET: '{"from":"azure-key-vault","vault":"${vaultUrl}","name":"messaging-shop"}'
  MESSAGING_TOKENS: '{"from":"azure-key-vault","vault":"${vaultUrl}","name":"messaging-tokens"}'
}

module frontDoorProfile 'front-door-profile.bicep' = if (hasFrontDoor) {
  name: 'front-door-profile'
  scope: group
  params: { name: name, tags: tags }
}

module webhookApp 'function-app.bicep' = {
  name: 'app-webhook'
  scope: group
  params: {
    group: 'webhook'
    name: 'func-${applicationName}-webhook-${suffix}'
    location: location
    tags: tags
    identityId: webhookIdentity.outputs.id
    clientId: webhookIdentity.outputs.clientId
    principalId: webhookIdentity.outputs.principalId
    hostStorageName: 'stw${suffix}'
    deploymentsName: deployments.outputs.name
    applicationInsightsName: monitoring.outputs.name
    settings: webhookSettings
    maximumInstanceCount: maximumInstanceCount
    instanceMemoryMB: instanceMemoryMB
    alwaysReadyCount: alwaysReadyCount
    updateStrategy: updateStrategy
    subnetId: privateNetworking ? network!.outputs.functionsSubnetId : ''
    privateNetworking: privateNetworking
    keepDeploymentRights: keepDeploymentRights
    frontDoorId: hasFrontDoor ? frontDoorProfile!.outputs.frontDoorId : ''
  }
}

module workApp 'function-app.bicep' = {
  name: 'app-work'
  scope: group
  params: {
    group: 'work'
    name: 'func-${applicationName}-work-${suffix}'
    location: location
    tags: tags
    identityId: workIdentity.outputs.id
    clientId: workIdentity.outputs.clientId
    principalId: workIdentity.outputs.principalId
    hostStorageName: 'stk${suffix}'
    deploymentsName: deployments.outputs.name
    applicationInsightsName: monitoring.outputs.name
    settings: union(workSettings, serviceBus ? busSettings : {}, hasGithub ? githubSettings : {})
    maximumInstanceCount: maximumInstanceCount
    instanceMemoryMB: instanceMemoryMB
    alwaysReadyCount: 0
    updateStrategy: updateStrategy
    subnetId: privateNetworking ? network!.outputs.functionsSubnetId : ''
    privateNetworking: privateNetworking
    keepDeploymentRights: keepDeploymentRights
    frontDoorId: ''
  }
}

module migrateApp 'function-app.bicep' = {
  name: 'app-migrate'
  scope: group
  params: {
    group: 'migrate'
    name: 'func-${applicationName}-migrate-${suffix}'
    location: location
    tags: tags
    identityId: migrateIdentity.outputs.id
    clientId: migrateIdentity.outputs.clientId
    principalId: migrateIdentity.outputs.principalId
    hostStorageName: 'stm${suffix}'
    deploymentsName: deployments.outputs.name
    applicationInsightsName: monitoring.outputs.name
    settings: migrateSettings
    maximumInstanceCount: maximumInstanceCount
    instanceMemoryMB: instanceMemoryMB
    alwaysReadyCount: 0
    updateStrategy: updateStrategy
    subnetId: privateNetworking ? network!.outputs.functionsSubnetId : ''
    privateNetworking: privateNetworking
    keepDeploymentRights: keepDeploymentRights
    frontDoorId: ''
  }
}

module serviceApp 'function-app.bicep' = if (service) {
  name: 'app-service'
  scope: group
  params: {
    group: 'service'
    name: 'func-${applicationName}-service-${suffix}'
    location: location
    tags: tags
    identityId: serviceIdentity!.outputs.id
    clientId: serviceIdentity!.outputs.clientId
    principalId: serviceIdentity!.outputs.principalId
    hostStorageName: 'sts${suffix}'
    deploymentsName: deployments.outputs.name
    applicationInsightsName: monitoring.outputs.name
    settings: serviceSettings
    maximumInstanceCount: maximumInstanceCount
    instanceMemoryMB: instanceMemoryMB
    alwaysReadyCount: 0
    updateStrategy: updateStrategy
    subnetId: privateNetworking ? network!.outputs.functionsSubnetId : ''
    privateNetworking: privateNetworking
    keepDeploymentRights: keepDeploymentRights
    frontDoorId: ''
  }
}

module adminApp 'function-app.bicep' = if (admin) {
  name: 'app-admin'
  scope: group
  params: {
    group: 'admin'
    name: 'func-${applicationName}-admin-${suffix}'
    location: location
    tags: tags
    identityId: adminIdentity!.outputs.id
    clientId: adminIdentity!.outputs.clientId
    principalId: adminIdentity!.outputs.principalId
    hostStorageName: 'sta${suffix}'
    deploymentsName: deployments.outputs.name
    applicationInsightsName: monitoring.outputs.name
    settings: adminSettings
    maximumInstanceCount: maximumInstanceCount
    instanceMemoryMB: instanceMemoryMB
    alwaysReadyCount: 0
    updateStrategy: updateStrategy
    subnetId: privateNetworking ? network!.outputs.functionsSubnetId : ''
    privateNetworking: privateNetworking
    keepDeploymentRights: keepDeploymentRights
    frontDoorId: ''
  }
}

module messagingApp 'function-app.bicep' = if (messaging) {
  name: 'app-messaging'
  scope: group
  params: {
    group: 'messaging'
    name: 'func-${applicationName}-messaging-${suffix}'
    location: location
    tags: tags
    identityId: messagingIdentity!.outputs.id
    clientId: messagingIdentity!.outputs.clientId
    principalId: messagingIdentity!.outputs.principalId
    hostStorageName: 'ste${suffix}'
    deploymentsName: deployments.outputs.name
    applicationInsightsName: monitoring.outputs.name
    settings: messagingSettings
    maximumInstanceCount: maximumInstanceCount
    instanceMemoryMB: instanceMemoryMB
    alwaysReadyCount: 0
    updateStrategy: updateStrategy
    subnetId: privateNetworking ? network!.outputs.functionsSubnetId : ''
    privateNetworking: privateNetworking
    keepDeploymentRights: keepDeploymentRights
    frontDoorId: ''
  }
}

module frontDoor 'front-door.bicep' = if (hasFrontDoor) {
  name: 'front-door'
  scope: group
  params: {
    name: '${applicationName}-${suffix}' // 46 characters at most
    profileName: frontDoorProfile!.outputs.name
    tags: tags
    hostName: webhookApp.outputs.hostName
    requestsPerMinute: clientRequestsPerMinute
  }
}

module endpoints 'private-endpoints.bicep' = if (privateNetworking) {
  name: 'endpoints'
  scope: group
  params: {
    location: location
    tags: tags
    networkId: network!.outputs.id
    subnetId: network!.outputs.endpointsSubnetId
    targets: concat(
      [
        { name: 'deployments', service: 'blob', resourceId: deployments.outputs.id }
        { name: 'queues', service: 'queue', resourceId: queues.outputs.id }
        { name: 'vault', service: 'vault', resourceId: vault.outputs.id }
        { name: 'webhook', service: 'blob', resourceId: webhookApp.outputs.hostStorageId }
        { name: 'work', service: 'blob', resourceId: workApp.outputs.hostStorageId }
        { name: 'migrate', service: 'blob', resourceId: migrateApp.outputs.hostStorageId }
      ],
      service ? [{ name: 'service', service: 'blob', resourceId: serviceApp!.outputs.hostStorageId }] : [],
      admin ? [{ name: 'admin', service: 'blob', resourceId: adminApp!.outputs.hostStorageId }] : [],
      messaging ? [{ name: 'messaging', service: 'blob', resourceId: messagingApp!.outputs.hostStorageId }] : [],
      hasSqlServer ? [{ name: 'database', service: 'sqlServer', resourceId: sqlServer!.outputs.serverId }] : [],
      hasPostgres ? [{ name: 'database', service: 'postgresqlServer', resourceId: postgres!.outputs.serverId }] : [],
      tenants == 'key-vault' ? [{ name: 'tenants', service: 'vault', resourceId: tenantsVault!.outputs.id }] : []
    )
  }
}

module alerts 'alerts.bicep' = {
  name: 'alerts'
  scope: group
  params: {
    name: name
    location: location
    tags: tags
    applicationInsightsId: monitoring.outputs.id
    email: alertEmail
    oldestAgeMs: oldestAgeMs
    reapMinutes: reapMinutes
    maximumInstanceCount: maximumInstanceCount
    service: service
    admin: admin
    messaging: messaging
    busId: serviceBus ? bus!.outputs.id : ''
    postgresId: hasPostgres ? postgres!.outputs.serverId : ''
  }
}

var appHostName = webhookApp.outputs.hostName

output AZURE_RESOURCE_GROUP string = group.name
output AZURE_KEY_VAULT string = vault.outputs.name
output QUEUES_ACCOUNT string = queues.outputs.name
output AZURE_TENANTS_VAULT string = tenants == 'key-vault' ? tenantsVault!.outputs.name : ''
output SQL_SERVER string = sqlServerName
output SQL_DATABASE string = sqlDatabaseName
output POSTGRES_SERVER string = postgresName
output POSTGRES_DATABASE string = postgresDatabaseName
output WORK_IDENTITY string = workIdentity.outputs.name
output WORK_CLIENT_ID string = workIdentity.outputs.clientId
output WORK_PRINCIPAL_ID string = workIdentity.outputs.principalId
output MIGRATE_PRINCIPAL_ID string = migrateIdentity.outputs.principalId
output MIGRATE_APP string = migrateApp.outputs.name
output MIGRATE_URL string = 'https://${migrateApp.outputs.hostName}/migrate'
output WEBHOOK_APP string = webhookApp.outputs.name
output WORK_APP string = workApp.outputs.name
output WEBHOOK_URL string = 'https://${hasFrontDoor ? frontDoor!.outputs.hostName : appHostName}/webhooks/stripe'
output SERVICE_URL string = service ? 'https://${serviceApp!.outputs.hostName}' : ''
output ADMIN_URL string = admin ? 'https://${adminApp!.outputs.hostName}' : ''
output MESSAGING_URL string = messaging ? 'https://${messagingApp!.outputs.hostName}/_rf/receive' : ''
// What hooks.mjs changes around a deployment: container=principal, with spaces between.
output DEPLOYMENT_RIGHTS string = join(
  concat(
    [
      webhookApp.outputs.deploymentRights
      workApp.outputs.deploymentRights
      migrateApp.outputs.deploymentRights
    ],
    service ? [serviceApp!.outputs.deploymentRights] : [],
    admin ? [adminApp!.outputs.deploymentRights] : [],
    messaging ? [messagingApp!.outputs.deploymentRights] : []
  ),
  ' '
)
