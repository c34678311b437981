/*
 * The lease protocol of a queue: inbox or outbox. MAPPING.md has each action beside the SQL that does it, README.md what is
 * left out. Spin checks this file. promela.ts runs the same actions in TypeScript, for traces that are replayed on the databases.
 *
 * An action is an inline whose body is one d_step: one statement or transaction of the database. Its guard says when it is possible.
 */

/* Sizes. Each can be set: spin -DN=3. */
#ifndef N
#define N 2 /* messages */
#endif
#ifndef T
#define T 2 /* owner tokens in use at once */
#endif
#ifndef KEYS
#define KEYS 1 /* partition keys, numbered from 1; 0 is none */
#endif
#ifndef BATCH
#define BATCH 2 /* the largest claim */
#endif
#ifndef MAX
#define MAX 2 /* attempts */
#endif
#ifndef LEASE
#define LEASE 1 /* ticks */
#endif
#ifndef BLOCK
#define BLOCK 0 /* deadInPartition: 0 is skip, 1 is block */
#endif
#ifndef RETURNS
#define RETURNS 1 /* handlers may return messages, which this queue takes */
#endif
#ifndef BUDGET
#define BUDGET 255 /* renewals, releases, lost answers, pauses and replays in all; 255 is no bound */
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

#define BACKOFF 1 /* ticks */
#define ALONE 2   /* crashesBeforeAlone */
#define NONE 255

#define ABSENT 0
#define READY 1
#define BLOCKED 2
#define DEAD 3
#define DONE 4

/* What is wrong in a mutant. */
#define ACK_BY_NUMBER 1
#define ABANDON_BY_NUMBER 2
#define RELEASE_BY_NUMBER 3
#define RENEW_BY_NUMBER 4
#define FAIL_BY_NUMBER 5
#define CLAIM_LEASED 6
#define CLAIM_TOO_EARLY 7
#define CLAIM_COSTS_NO_ATTEMPT 8
#define CLAIM_AFTER_LAST_ATTEMPT 9
#define REAP_LIVE_LEASE 10
#define REAP_COSTS_NO_ATTEMPT 11
#define REAP_AFTER_LAST_ATTEMPT 12
#define REAP_FORGETS_CRASH 13
#define HEAD_FREED_TWICE 14
#define HEAD_NOT_FREED 15
#define ABANDON_FREES_HEAD 16
#define DEAD_HEAD_STAYS 17
#define ARRIVAL_NOT_BLOCKED 18
#define REPLAY_AT_THE_FRONT 19
#define REPLAY_OF_DONE 20
#define REPLAY_KEEPS_ATTEMPTS 21
#define TOKEN_USED_AGAIN 22
#define SUSPECT_AMONG_OTHERS 23
#define FIRST_CRASH_NOT_FORGIVEN 24
#define CLAIM_WHILE_PAUSED 25
#define COMMIT_WITHOUT_LEASE 26
#define RETURNED_WITHOUT_ACK 27
#define ACK_WITHOUT_RETURNED 28
#define RELEASE_COSTS_ATTEMPT 29
#define LOST_NEVER_CLAIMABLE 30

/* The rows. Times are ticks from now, so that there are finitely many states. */
byte count;       /* messages that were enqueued; their numbers are their order */
byte status[N];
byte key[N];
byte attempt[N];
byte crashes[N];
byte owner[N];    /* 0 is null, and then locked_until is null too */
byte lease[N];    /* locked_until: 0 is past, 1 is now, 2 is in one tick */
byte again[N];    /* reclaimable_at: 0 is null or has come */
byte due[N];      /* visible_at: 0 is past, 1 is now, 2 is in one tick */
byte place[N];    /* how many unfinished messages are before it by visible_at and number */
byte position[N]; /* in its partition queue: 1 is the head, 0 is not in it */
byte paused;

/* What the workers believe. A worker that was killed believes nothing. */
byte holds[T * N]; /* a handler has the message, or its settlement is being sent */
byte gone[T * N];  /* its lease was lost: another claim or the reaper has ended it */
byte told[T * N];  /* the end of its lease as the database told it, as in lease; 0 when it has been given up or settled */

/* What only the proof counts. */
byte tries[N];    /* claims that were not released */
byte effects[N];  /* committed transactions of its handler */
byte skipped[N];  /* it died and left its partition queue */
byte parent[N];   /* 1 + the message whose handler returned it */
byte returned[N]; /* its handler has returned a message, and its acknowledgement was confirmed */
byte budget = BUDGET;

/* Made of the state after each action, for guards. */
byte claimable;
byte busy[T];  /* a row or a handler has the token */
byte hands[T]; /* messages that handlers of the token have */

/* Scratch: each helper has its own, because an inline is a macro. */
hidden byte picked[N];
hidden byte taken; hidden byte first; hidden byte offered; hidden byte lost;
hidden byte a; hidden byte c; hidden byte e; hidden byte f; hidden byte g; hidden byte h; hidden byte i; hidden byte j;
hidden byte o; hidden byte q; hidden byte u; hidden byte v; hidden byte w; hidden byte x; hidden byte y; hidden byte z;

#define AT(t, m) ((t - 1) * N + m)
#define LIVE(m) (status[m] == READY || status[m] == BLOCKED)
#define CLAIMABLE(m) (status[m] == READY && due[m] <= 1 && (again[m] == 0 || (MUTANT == CLAIM_LEASED && owner[m] != 0)) && !(MUTANT == LOST_NEVER_CLAIMABLE && crashes[m] > 0))
#define SUSPECT(m) (crashes[m] + (owner[m] != 0) >= ALONE - (MUTANT == FIRST_CRASH_NOT_FORGIVEN))
#define MAY(n) (budget >= n)

/* ---- what holds in every state ---- */

/* A lease that has not ended by the database's clock has one holder, and the row names it. */
inline one_holder() {
  for (x : 1 .. T) {
    for (y : 0 .. N - 1) {
      assert(told[AT(x, y)] == 0 || (holds[AT(x, y)] && status[y] == READY && owner[y] == x && told[AT(x, y)] <= lease[y]));
    }
  }
}

/* A message is in one of its states, and a finished one has no lease. */
inline nothing_lost() {
  for (x : 0 .. N - 1) {
    assert((status[x] == ABSENT) == (x >= count));
    assert(owner[x] == 0 || status[x] == READY);
    assert(key[x] == 0 || !LIVE(x) || position[x] > 0);
    assert(key[x] > 0 || status[x] != BLOCKED);
    assert(position[x] == 0 || LIVE(x) || (BLOCK && status[x] == DEAD));
  }
}

/* A transactional handler's writes are committed once, with the acknowledgement. */
inline effects_once() {
  for (x : 0 .. N - 1) {
    assert(effects[x] == (status[x] == DONE));
  }
}

/* What a handler returns is stored once, with the acknowledgement. */
inline returned_once() {
  for (x : 0 .. N - 1) {
    assert(parent[x] == 0 || (status[parent[x] - 1] == DONE && returned[parent[x] - 1]));
    y = 0;
    for (z : 0 .. N - 1) {
      if
      :: (parent[z] == x + 1) -> y++;
      :: else -> skip;
      fi;
    }
    assert(y == returned[x]);
  }
}

/* Only the head of a partition queue is ready, and it is: nobody else would wake the others. */
inline heads_ready() {
  for (x : 0 .. N - 1) {
    assert(key[x] == 0 || !LIVE(x) || (status[x] == READY) == (position[x] == 1));
    for (y : 0 .. N - 1) {
      assert(x == y || key[x] == 0 || key[x] != key[y] || position[x] == 0 || position[x] != position[y]);
    }
  }
}

/* Of two messages with one key the later one waits until the earlier one is done, or has been dead and skipped. */
inline in_order() {
  for (x : 0 .. N - 1) {
    for (y : 0 .. N - 1) {
      assert(x >= y || y >= count || key[x] == 0 || key[x] != key[y] || status[x] == DONE || skipped[x] || status[y] == BLOCKED);
    }
  }
}

/* Each claim that was not released is an attempt, or the lease that is running; and attempts end. */
inline attempts_bounded() {
  for (x : 0 .. N - 1) {
    assert(tries[x] == attempt[x] + (owner[x] != 0 || status[x] == DONE));
    assert(tries[x] <= MAX);
    assert(attempt[x] < MAX || status[x] == DEAD);
  }
}

/* A settlement or renewal changes a row only for a handler that has not lost its lease. */
inline by_its_holder(t, m) {
  assert(!gone[AT(t, m)]);
}

inline nothing_while_paused() {
  assert(!paused);
}

/* From its second crash on a message is claimed by itself. */
inline suspect_alone(m) {
  assert(crashes[m] < ALONE || taken == 1);
}

/* Until then it does not keep others out of the claim. */
inline first_crash_forgiven(m, n) {
  assert(crashes[m] >= ALONE || taken == n || taken == offered);
}

inline crash_counted(m) {
  assert(crashes[m] > 0);
}

/* Ends every action. */
inline check() {
  claimable = 0;
  for (c : 0 .. N - 1) {
    claimable = claimable + CLAIMABLE(c);
  }
  for (e : 1 .. T) {
    busy[e - 1] = 0;
    hands[e - 1] = 0;
    for (c : 0 .. N - 1) {
      hands[e - 1] = hands[e - 1] + holds[AT(e, c)];
      busy[e - 1] = (busy[e - 1] || holds[AT(e, c)] || (owner[c] == e && MUTANT != TOKEN_USED_AGAIN));
    }
    if
    :: (MUTANT == TOKEN_USED_AGAIN) -> busy[e - 1] = 0;
    :: else -> skip;
    fi;
  }
  one_holder();
  nothing_lost();
  effects_once();
  returned_once();
  heads_ready();
  in_order();
  attempts_bounded();
  skip; /* a d_step may not end with a loop */
}

/* ---- pieces of statements ---- */

/* Takes an unfinished message out of the order of claims. */
inline displace(m) {
  for (u : 0 .. N - 1) {
    if
    :: (u != m && LIVE(u) && place[u] > place[m]) -> place[u] = place[u] - 1;
    :: else -> skip;
    fi;
  }
  place[m] = 0;
}

/* Puts a message into the order of claims by its visible_at, which is now or later. */
inline place_at(m, time) {
  due[m] = time;
  v = 0;
  for (w : 0 .. N - 1) {
    if
    :: (w != m && LIVE(w) && (due[w] < time || (due[w] == time && w < m))) -> v++;
    :: else -> skip;
    fi;
  }
  for (w : 0 .. N - 1) {
    if
    :: (w != m && LIVE(w) && place[w] >= v) -> place[w] = place[w] + 1;
    :: else -> skip;
    fi;
  }
  place[m] = v;
}

/* At the end of its partition queue, unless it has a position. All but the head are blocked. */
inline join_partition(m) {
  if
  :: (key[m] > 0 && position[m] == 0) ->
    q = 1;
    for (j : 0 .. N - 1) {
      if
      :: (key[j] == key[m] && position[j] > 0) ->
        if
        :: (MUTANT == REPLAY_AT_THE_FRONT) -> position[j] = position[j] + skipped[m]; q = q + !skipped[m];
        :: else -> q++;
        fi;
      :: else -> skip;
      fi;
    }
    position[m] = q;
  :: else -> skip;
  fi;
  if
  :: (position[m] > 1 && MUTANT != ARRIVAL_NOT_BLOCKED) -> status[m] = BLOCKED;
  :: else -> status[m] = READY;
  fi;
}

/* The next message of its key becomes the head. */
inline leave_partition(m) {
  if
  :: (position[m] > 0) ->
    for (j : 0 .. N - 1) {
      if
      :: (key[j] == key[m] && position[j] > position[m]) ->
        position[j] = position[j] - 1;
        if
        :: (status[j] == BLOCKED && (position[j] == 1 || MUTANT == HEAD_FREED_TWICE) && MUTANT != HEAD_NOT_FREED) -> status[j] = READY;
        :: else -> skip;
        fi;
      :: else -> skip;
      fi;
    }
    position[m] = 0;
  :: else -> skip;
  fi;
}

inline end_lease(m) {
  owner[m] = 0;
  lease[m] = 0;
}

inline finish(m, how) {
  displace(m);
  status[m] = how;
  end_lease(m);
  again[m] = 0;
  due[m] = 0;
  if
  :: (how == DONE || (BLOCK == 0 && MUTANT != DEAD_HEAD_STAYS)) ->
    skipped[m] = (skipped[m] || (how == DEAD && key[m] > 0));
    leave_partition(m);
  :: else -> skip;
  fi;
}

/* A lost lease was an attempt. Its handler may still run. */
inline count_lost(m, attempts, crashed) {
  attempt[m] = attempt[m] + (attempts);
  crashes[m] = crashes[m] + (crashed);
  gone[AT(owner[m], m)] = holds[AT(owner[m], m)];
}

inline set_lease(m, t) {
  lease[m] = LEASE + 1;
  again[m] = LEASE + BACKOFF * (MUTANT != CLAIM_TOO_EARLY);
  told[AT(t, m)] = LEASE + 1;
}

inline add(k, from) {
  a = count;
  key[a] = k;
  parent[a] = from;
  place_at(a, 1);
  join_partition(a);
  count++;
}

/* The worker has sent a settlement: it handles the message no more. When it has the answer, it forgets the message. */
inline settled(t, m, answered) {
  told[AT(t, m)] = 0;
  holds[AT(t, m)] = !answered;
  gone[AT(t, m)] = (gone[AT(t, m)] && !answered);
}

inline spend(n) {
  if
  :: (BUDGET < 255) -> budget = budget - (n);
  :: else -> skip;
  fi;
}

/* ---- the actions ---- */

inline tick() {
  d_step {
    true ->
    for (i : 0 .. N - 1) {
      due[i] = due[i] - (due[i] > 0);
      lease[i] = lease[i] - (lease[i] > 0);
      again[i] = again[i] - (again[i] > 0);
    }
    for (i : 0 .. T * N - 1) {
      told[i] = told[i] - (told[i] > 0);
    }
    check();
  }
}

inline enqueue(k) {
  d_step {
    (count < N) ->
    add(k, 0);
    check();
  }
}

/* Leases n due messages at most, the oldest first. One is passed over, when another transaction has locked its row. */
inline claim(t, n, passed) {
  d_step {
    (!busy[t - 1] && claimable > (passed != NONE && CLAIMABLE(passed)) && (!paused || MUTANT == CLAIM_WHILE_PAUSED)) ->
    nothing_while_paused();
    taken = 0;
    offered = 0;
    first = NONE;
    for (o : 0 .. N - 1) {
      picked[o] = 0;
    }
    for (g : 0 .. N - 1) {
      for (o : 0 .. N - 1) {
        if
        :: (LIVE(o) && place[o] == g && CLAIMABLE(o) && o != passed) ->
          offered++;
          if
          :: (taken < n) ->
            picked[o] = 1;
            taken++;
            if
            :: (first == NONE && SUSPECT(o) && MUTANT != SUSPECT_AMONG_OTHERS) -> first = o;
            :: else -> skip;
            fi;
          :: else -> skip;
          fi;
        :: else -> skip;
        fi;
      }
    }
    for (o : 0 .. N - 1) {
      if
      :: (first != NONE && picked[o] && o != first) -> picked[o] = 0; taken--;
      :: else -> skip;
      fi;
    }
    for (o : 0 .. N - 1) {
      if
      :: (picked[o]) ->
        lost = (owner[o] != 0);
        if
        :: (lost) -> count_lost(o, MUTANT != CLAIM_COSTS_NO_ATTEMPT, 1);
        :: else -> skip;
        fi;
        suspect_alone(o);
        first_crash_forgiven(o, n);
        if
        :: (lost && attempt[o] >= MAX && MUTANT != CLAIM_AFTER_LAST_ATTEMPT) -> finish(o, DEAD);
        :: else ->
          owner[o] = t;
          set_lease(o, t);
          holds[AT(t, o)] = 1;
          tries[o] = tries[o] + 1;
        fi;
      :: else -> skip;
      fi;
    }
    check();
  }
}

/* A handler has succeeded: its transaction commits, and what it returned with key k is enqueued. The answer may be lost. */
inline ack(t, m, answered, k) {
  d_step {
    (holds[AT(t, m)] && (answered || MAY(1)) && (k == NONE || (RETURNS && count < N))) ->
    spend(!answered);
    if
    :: (owner[m] == t || (MUTANT == ACK_BY_NUMBER && LIVE(m))) ->
      by_its_holder(t, m);
      finish(m, DONE);
      effects[m] = effects[m] + 1;
      returned[m] = (k != NONE);
      if
      :: (k != NONE && MUTANT != ACK_WITHOUT_RETURNED) -> add(k, m + 1);
      :: else -> skip;
      fi;
    :: else ->
      if
      :: (MUTANT == COMMIT_WITHOUT_LEASE) -> effects[m] = effects[m] + 1;
      :: else -> skip;
      fi;
      if
      :: (k != NONE && MUTANT == RETURNED_WITHOUT_ACK) -> add(k, m + 1);
      :: else -> skip;
      fi;
    fi;
    settled(t, m, answered);
    check();
  }
}

/* A handler has failed. */
inline abandon(t, m) {
  d_step {
    holds[AT(t, m)] ->
    if
    :: (owner[m] == t || (MUTANT == ABANDON_BY_NUMBER && LIVE(m))) ->
      by_its_holder(t, m);
      attempt[m] = attempt[m] + 1;
      crashes[m] = 0;
      if
      :: (attempt[m] >= MAX) -> finish(m, DEAD);
      :: else ->
        end_lease(m);
        again[m] = 0;
        displace(m);
        place_at(m, BACKOFF + 1);
        if
        :: (MUTANT == ABANDON_FREES_HEAD) -> leave_partition(m); join_partition(m);
        :: else -> skip;
        fi;
      fi;
    :: else -> skip;
    fi;
    settled(t, m, 1);
    check();
  }
}

/* A handler has failed for good. */
inline fail(t, m) {
  d_step {
    holds[AT(t, m)] ->
    if
    :: (owner[m] == t || (MUTANT == FAIL_BY_NUMBER && LIVE(m))) ->
      by_its_holder(t, m);
      attempt[m] = attempt[m] + 1;
      finish(m, DEAD);
    :: else -> skip;
    fi;
    settled(t, m, 1);
    check();
  }
}

/* The message was not started. It keeps its place and its crashes. */
inline release(t, m) {
  d_step {
    (holds[AT(t, m)] && MAY(1)) ->
    spend(1);
    if
    :: (owner[m] == t || (MUTANT == RELEASE_BY_NUMBER && LIVE(m))) ->
      by_its_holder(t, m);
      end_lease(m);
      again[m] = 0;
      tries[m] = tries[m] - 1;
      attempt[m] = attempt[m] + (MUTANT == RELEASE_COSTS_ATTEMPT);
    :: else -> skip;
    fi;
    settled(t, m, 1);
    check();
  }
}

/* Also a lease that is over can be renewed, as long as nobody has ended it. */
inline renew(t, m) {
  d_step {
    (holds[AT(t, m)] && MAY(1)) ->
    spend(1);
    if
    :: (owner[m] == t || (MUTANT == RENEW_BY_NUMBER && owner[m] != 0)) ->
      by_its_holder(t, m);
      set_lease(m, t);
    :: else -> settled(t, m, 1);
    fi;
    check();
  }
}

/* The process is gone, or frozen for good. Its rows stay as they are. */
inline crash(t) {
  d_step {
    (hands[t - 1] > 0) ->
    for (f : 0 .. N - 1) {
      settled(t, f, 1);
    }
    check();
  }
}

inline reap(m) {
  d_step {
    (owner[m] != 0 && (lease[m] == 0 || MUTANT == REAP_LIVE_LEASE)) ->
    count_lost(m, MUTANT != REAP_COSTS_NO_ATTEMPT, MUTANT != REAP_FORGETS_CRASH);
    crash_counted(m);
    if
    :: (attempt[m] >= MAX && MUTANT != REAP_AFTER_LAST_ATTEMPT) -> finish(m, DEAD);
    :: else -> end_lease(m);
    fi;
    check();
  }
}

inline replay(m) {
  d_step {
    ((status[m] == DEAD || (MUTANT == REPLAY_OF_DONE && status[m] == DONE)) && MAY(1)) ->
    spend(1);
    attempt[m] = attempt[m] * (MUTANT == REPLAY_KEEPS_ATTEMPTS);
    crashes[m] = 0;
    tries[m] = 0;
    place_at(m, 1);
    join_partition(m);
    check();
  }
}

inline pause() {
  d_step {
    (!paused && MAY(1)) ->
    spend(1);
    paused = 1;
    check();
  }
}

inline resume() {
  d_step {
    paused ->
    paused = 0;
    check();
  }
}

/* ---- who does what, for Spin ---- */

#if N == 1
#define EACH(act) :: act(0)
#define EACH_OR_NONE(act) :: act(NONE)
#elif N == 2
#define EACH(act) :: act(0) :: act(1)
#define EACH_OR_NONE(act) :: act(NONE) :: act(0) :: act(1)
#elif N == 3
#define EACH(act) :: act(0) :: act(1) :: act(2)
#define EACH_OR_NONE(act) :: act(NONE) :: act(0) :: act(1) :: act(2)
#else
#define EACH(act) :: act(0) :: act(1) :: act(2) :: act(3)
#define EACH_OR_NONE(act) :: act(NONE) :: act(0) :: act(1) :: act(2) :: act(3)
#endif
#if KEYS == 1
#define EACH_KEY(act) :: act(0) :: act(1)
#else
#define EACH_KEY(act) :: act(0) :: act(1) :: act(2)
#endif

/* The workers are the first processes. */
#define ME (_pid + 1)
#define CLAIM_1(passed) claim(ME, 1, passed)
#define CLAIM_2(passed) claim(ME, 2, passed)
#define ACK(m) ack(ME, m, 1, NONE)
#define ACK_UNANSWERED(m) ack(ME, m, 0, NONE)
#define ACK_0(m) ack(ME, m, 1, 0)
#define ACK_0_UNANSWERED(m) ack(ME, m, 0, 0)
#define ACK_1(m) ack(ME, m, 1, 1)
#define ACK_1_UNANSWERED(m) ack(ME, m, 0, 1)
#define ACK_2(m) ack(ME, m, 1, 2)
#define ACK_2_UNANSWERED(m) ack(ME, m, 0, 2)
#define ABANDON(m) abandon(ME, m)
#define FAIL(m) fail(ME, m)
#define RELEASE(m) release(ME, m)
#define RENEW(m) renew(ME, m)

active [T] proctype worker() {
  do
  EACH_OR_NONE(CLAIM_1)
#if BATCH > 1
  EACH_OR_NONE(CLAIM_2)
#endif
  EACH(ACK) EACH(ACK_UNANSWERED) EACH(ACK_0) EACH(ACK_0_UNANSWERED) EACH(ACK_1) EACH(ACK_1_UNANSWERED)
#if KEYS > 1
  EACH(ACK_2) EACH(ACK_2_UNANSWERED)
#endif
  EACH(ABANDON) EACH(FAIL) EACH(RELEASE) EACH(RENEW)
  :: crash(ME)
  od
}

active proctype sender() { do EACH_KEY(enqueue) od }
active proctype clock() { do :: tick() od }
active proctype reaper() { do EACH(reap) od }
active proctype operator() { do EACH(replay) :: pause() :: resume() od }

#if N == 1
#define ended (status[0] != READY)
#elif N == 2
#define ended (status[0] != READY && status[1] != READY)
#else
#define ended (status[0] != READY && status[1] != READY && status[2] != READY)
#endif

/* A due message is in the end done or dead; checked with a BUDGET and under weak fairness. */
#ifdef LIVENESS
ltl ends { []<> ended }
#endif
