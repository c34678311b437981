// The queue that wakes the dispatcher and carries tenant batches, and the queue that other services fill. No keys.
param name string
param location string
param tags object
@description('The app with timers and queues, which reads the queues.')
param workPrincipalId string
@description('The apps that wake the dispatcher after a webhook.')
param senderPrincipalIds string[]
@description('The app of a service\'s messages, which wakes its own dispatcher. Empty: there is none.')
param messagingPrincipalId string
param privateNetworking bool

var queueContributor = '974c5e8b-45b9-4653-ba55-5f855dd0fb88' // Storage Queue Data Contributor
var messageSender = 'c6a89b2d-59bc-44d0-9896-0f6e12d7b80a' // Storage Queue Data Message Sender

resource account 'Microsoft.Storage/storageAccounts@2024-01-01' = {
  name: name
  location: location
  tags: tags
  kind: 'StorageV2'
  sku: { name: 'Standard_LRS' } // not every region has more
  properties: {
    allowBlobPublicAccess: false
    allowSharedKeyAccess: false
    defaultToOAuthAuthentication: true
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
    publicNetworkAccess: privateNetworking ? 'Disabled' : 'Enabled'
    networkAcls: {
      bypass: 'AzureServices'
      defaultAction: privateNetworking ? 'Deny' : 'Allow'
    }
  }
}

resource queues 'Microsoft.Storage/storageAccounts/queueServices@2024-01-01' = {
  parent: account
  name: 'default'
}

resource wakeUps 'Microsoft.Storage/storageAccounts/queueServices/queues@2024-01-01' = {
  parent: queues
  name: 'oncebox-wake-up'
}

// Where the host puts a wake-up whose function failed five times. An alert tells of messages in a poison queue: reap counts
// them, because Azure has no metric of a single queue.
resource poison 'Microsoft.Storage/storageAccounts/queueServices/queues@2024-01-01' = {
  parent: queues
  name: 'oncebox-wake-up-poison'
}

// The app's consumer handles the messages that other services send here. A sender needs Storage Queue Data Message Sender.
resource incoming 'Microsoft.Storage/storageAccounts/queueServices/queues@2024-01-01' = {
  parent: queues
  name: 'oncebox-incoming'
}

resource incomingPoison 'Microsoft.Storage/storageAccounts/queueServices/queues@2024-01-01' = {
  parent: queues
  name: 'oncebox-incoming-poison'
}

// Wakes the dispatcher of messages.
resource messageWakeUps 'Microsoft.Storage/storageAccounts/queueServices/queues@2024-01-01' = if (!empty(messagingPrincipalId)) {
  parent: queues
  name: 'oncebox-wake-up-messages'
}

resource messagePoison 'Microsoft.Storage/storageAccounts/queueServices/queues@2024-01-01' = if (!empty(messagingPrincipalId)) {
  parent: queues
  name: 'oncebox-wake-up-messages-poison'
}

// Only these two: the app cannot touch what wakes or feeds the others.
resource mayWakeMessages 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(messagingPrincipalId)) {
  name: guid(messageWakeUps.id, messagingPrincipalId, queueContributor)
  scope: messageWakeUps
  properties: {
    principalId: messagingPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', queueContributor)
  }
}

resource mayCountPoison 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(messagingPrincipalId)) {
  name: guid(messagePoison.id, messagingPrincipalId, queueContributor)
  scope: messagePoison
  properties: {
    principalId: messagingPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', queueContributor)
  }
}

resource mayRead 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(account.id, workPrincipalId, queueContributor)
  scope: account
  properties: {
    principalId: workPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', queueContributor)
  }
}

resource maySend 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for principalId in senderPrincipalIds: {
    name: guid(wakeUps.id, principalId, messageSender)
    scope: wakeUps
    properties: {
      principalId: principalId
      principalType: 'ServicePrincipal'
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', messageSender)
    }
  }
]

output id string = account.id
output name string = account.name
output url string = account.properties.primaryEndpoints.queue
output wakeUpQueue string = wakeUps.name
output incomingQueue string = incoming.name
output messageWakeUpQueue string = empty(messagingPrincipalId) ? '' : messageWakeUps.name
