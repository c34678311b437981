// Alerts for the operators. The queries read the functions' own log lines (JSON) and the failed requests. host.json lets
// these through, and nothing else. The runbook (docs/runbook.md of oncebox) has a section for each rule.
param name string
param location string
param tags object
param applicationInsightsId string
param email string
param oldestAgeMs int
param reapMinutes int
param maximumInstanceCount int
param service bool
param admin bool
param messaging bool
@description('The namespace of Service Bus. Empty: there is none.')
param busId string
@description('The PostgreSQL server. Empty: there is none.')
param postgresId string

// By reapMinutes: windows that Azure accepts, in which reap runs at least three times.
var windows = {
  '1': { oldestAge: 'PT5M', noReap: 'PT15M' }
  '5': { oldestAge: 'PT30M', noReap: 'PT30M' }
  '10': { oldestAge: 'PT45M', noReap: 'PT45M' }
  '15': { oldestAge: 'PT1H', noReap: 'PT1H' }
  '30': { oldestAge: 'PT2H', noReap: 'PT2H' }
}
var lines = 'traces | where message startswith "{" | extend line = parse_json(message)'
var rules = [
  {
    name: 'dead-letters'
    description: 'Messages used up their attempts. Run: oncebox dead groups'
    query: '${lines} | where line.message == "message is dead"'
    operator: 'GreaterThan'
    threshold: 0
    window: 'PT5M'
  }
  {
    name: 'oldest-age'
    description: 'Messages wait for too long. Handlers are too slow, too few, or fail. Run: oncebox status'
    query: '${lines} | where line.message == "queue" and toint(line.oldestDueAgeMs) > ${oldestAgeMs}'
    operator: 'GreaterThan'
    threshold: 2
    window: windows[string(reapMinutes)].oldestAge
  }
  {
    name: 'no-reap'
    description: 'The reap function does not run, so the age of the oldest message is unknown. Run: oncebox reap --time 300'
    query: '${lines} | where line.message == "queue"'
    operator: 'LessThan'
    threshold: 1
    window: windows[string(reapMinutes)].noReap
  }
  {
    name: 'failures'
    description: 'A function failed, or was killed at its time-out. Run: oncebox doctor'
    query: 'requests | where success == false'
    operator: 'GreaterThan'
    threshold: 0
    window: 'PT5M'
  }
  {
    name: 'webhook-failures'
    description: 'Senders are answered 5xx. They retry, but not for ever. Run: oncebox doctor'
    query: '${lines} | where line.message == "webhook" and toint(line.status) >= 500'
    operator: 'GreaterThan'
    threshold: 5
    window: 'PT5M'
  }
  {
    name: 'at-limit'
    description: 'The maximum number of instances receive webhooks. The platform answers further requests with 429. Run: oncebox status --watch'
    query: 'customMetrics | where name == "webhook Count" | summarize instances = dcount(cloud_RoleInstance) by bin(timestamp, 1m) | where instances >= ${maximumInstanceCount}'
    operator: 'GreaterThan'
    threshold: 1
    window: 'PT5M'
  }
  {
    name: 'poison-queues'
    description: 'A queue\'s function failed five times for a message, which now waits in the queue\'s poison queue. Run: oncebox doctor'
    query: '${lines} | where line.message == "poison queue" and toint(line.messages) > 0'
    operator: 'GreaterThan'
    threshold: 0
    window: windows[string(reapMinutes)].noReap // reap counts them
  }
]

// With service. Its failures are counted among those of all functions, by the rule above.
var serviceRules = [
  {
    name: 'inbox-service-failures'
    description: 'Consumers that ask the inbox service are answered 5xx. They wait, and ask again. Run: oncebox doctor'
    query: '${lines} | where line.message == "inbox service" and toint(line.status) >= 500'
    operator: 'GreaterThan'
    threshold: 5
    window: 'PT5M'
  }
  {
    name: 'inbox-service-slow'
    description: 'A request to the inbox service took more than 8 s. The database is slow, or away. Run: oncebox doctor'
    query: 'customMetrics | where name == "inbox-service MaxDurationMs" and value > 8000'
    operator: 'GreaterThan'
    threshold: 0
    window: 'PT5M'
  }
  {
    name: 'inbox-service-at-limit'
    description: 'The maximum number of instances answer for the inbox service. The platform answers further requests with 429. Run: oncebox status --watch'
    query: 'customMetrics | where name == "inbox-service Count" | summarize instances = dcount(cloud_RoleInstance) by bin(timestamp, 1m) | where instances >= ${maximumInstanceCount}'
    operator: 'GreaterThan'
    threshold: 1
    window: 'PT5M'
  }
]

// With admin.
var adminRules = [
  {
    name: 'admin-failures'
    description: 'Operators are answered 5xx by the diagnostics API. The database is slow, or away. Run: oncebox doctor'
    query: '${lines} | where line.message == "admin" and toint(line.status) >= 500'
    operator: 'GreaterThan'
    threshold: 5
    window: 'PT5M'
  }
  {
    name: 'admin-refused'
    description: 'Requests with wrong tokens reach the diagnostics API, or too many requests. Somebody may be guessing. Run: oncebox dead operations'
    // a line stands for those that were not logged, too
    query: '${lines} | where line.message == "admin" and toint(line.status) in (401, 429) | summarize refused = sum(1 + coalesce(tolong(line.refusedSinceLastLine), 0)) | where refused > 20'
    operator: 'GreaterThan'
    threshold: 0
    window: 'PT5M'
  }
]

// With messaging. The lines are those of the service's own log.
var messagingRules = [
  {
    name: 'messages-failed'
    description: 'Messages to other services were refused for good, or used up their retries: /_rf/outbox/failed lists them. Run: oncebox doctor'
    query: '${lines} | where line.message == "Outbox: message permanently failed"'
    operator: 'GreaterThan'
    threshold: 0
    window: 'PT5M'
  }
  {
    name: 'messages-expired'
    description: 'Messages to other services were not delivered within their TTL: /_rf/outbox/failed?state=Expired lists them. Run: oncebox doctor'
    query: '${lines} | where line.message == "Outbox: message expired"'
    operator: 'GreaterThan'
    threshold: 0
    window: 'PT5M'
  }
  {
    name: 'messages-refused'
    description: 'Messages with wrong signatures arrive. A secret or a clock differs, or somebody is guessing. The log says whose. Run: oncebox doctor'
    // a line stands for those that were not logged, too
    query: '${lines} | where line.message == "Inbox: HMAC verification failed" | summarize refused = sum(1 + coalesce(tolong(line.refusedSinceLastLine), 0)) | where refused > 20'
    operator: 'GreaterThan'
    threshold: 0
    window: 'PT5M'
  }
  {
    name: 'messages-not-processed'
    description: 'Other services are answered 5xx: handlers of messages fail, or the database is away. They retry, until their messages expire. Run: oncebox doctor'
    query: '${lines} | where line.message in ("Inbox: message not processed", "Inbox: service could not be created")'
    operator: 'GreaterThan'
    threshold: 5
    window: 'PT5M'
  }
  {
    name: 'messages-at-limit'
    description: 'The maximum number of instances receive messages. The platform answers further requests with 429. Run: oncebox doctor'
    query: 'customMetrics | where name == "receiveMessages Count" | summarize instances = dcount(cloud_RoleInstance) by bin(timestamp, 1m) | where instances >= ${maximumInstanceCount}'
    operator: 'GreaterThan'
    threshold: 1
    window: 'PT5M'
  }
]

// What Azure measures itself. With serviceBus.
var busMetrics = [
  {
    name: 'bus-dead-letters'
    description: 'The consumer failed ten times for a message of Service Bus, which now is in the dead-letter queue. Run: oncebox doctor'
    metric: 'DeadletteredMessages'
    resourceId: busId
    namespace: 'Microsoft.ServiceBus/namespaces'
    dimensions: [{ name: 'EntityName', operator: 'Include', values: ['oncebox-incoming'] }]
    aggregation: 'Maximum'
    threshold: 0
    window: 'PT5M'
  }
]

// With database: postgres.
var postgresMetrics = [
  {
    name: 'database-storage'
    description: 'The database\'s disk is nearly full. It grows by itself, but a full one can only be read. Run: oncebox status'
    metric: 'storage_percent'
    resourceId: postgresId
    namespace: 'Microsoft.DBforPostgreSQL/flexibleServers'
    dimensions: []
    aggregation: 'Maximum'
    threshold: 85
    window: 'PT15M'
  }
  {
    name: 'database-cpu'
    description: 'The database has been busy for 15 minutes. A burstable size slows down when its credits are used up. Run: oncebox status'
    metric: 'cpu_percent'
    resourceId: postgresId
    namespace: 'Microsoft.DBforPostgreSQL/flexibleServers'
    dimensions: []
    aggregation: 'Average'
    threshold: 90
    window: 'PT15M'
  }
]

resource people 'Microsoft.Insights/actionGroups@2023-01-01' = {
  name: 'ag-${name}'
  location: 'global'
  tags: tags
  properties: {
    enabled: true
    groupShortName: 'oncebox'
    emailReceivers: empty(email) ? [] : [{ name: 'email', emailAddress: email, useCommonAlertSchema: true }]
  }
}

resource alerts 'Microsoft.Insights/scheduledQueryRules@2023-12-01' = [
  for rule in concat(rules, service ? serviceRules : [], admin ? adminRules : [], messaging ? messagingRules : []): {
    name: '${name}-${rule.name}'
    location: location
    tags: tags
    kind: 'LogAlert'
    properties: {
      displayName: '${name} ${rule.name}'
      description: rule.description
      severity: 2
      enabled: true
      scopes: [applicationInsightsId]
      evaluationFrequency: 'PT5M'
      windowSize: rule.window
      criteria: {
        allOf: [
          {
            query: rule.query
            timeAggregation: 'Count'
            operator: rule.operator
            threshold: rule.threshold
            failingPeriods: { numberOfEvaluationPeriods: 1, minFailingPeriodsToAlert: 1 }
          }
        ]
      }
      actions: { actionGroups: [people.id] }
    }
  }
]

resource metricAlerts 'Microsoft.Insights/metricAlerts@2018-03-01' = [
  for rule in concat(empty(busId) ? [] : busMetrics, empty(postgresId) ? [] : postgresMetrics): {
    name: '${name}-${rule.name}'
    location: 'global'
    tags: tags
    properties: {
      description: rule.description
      severity: 2
      enabled: true
      scopes: [rule.resourceId]
      evaluationFrequency: 'PT5M'
      windowSize: rule.window
      criteria: {
        'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
        allOf: [
          {
            criterionType: 'StaticThresholdCriterion'
            name: rule.name
            metricNamespace: rule.namespace
            metricName: rule.metric
            dimensions: rule.dimensions
            operator: 'GreaterThan'
            threshold: rule.threshold
            timeAggregation: rule.aggregation
          }
        ]
      }
      actions: [{ actionGroupId: people.id }]
    }
  }
]
