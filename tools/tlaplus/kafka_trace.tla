---------------------------- MODULE kafka_trace ----------------------------
(* Is a simulated run a behaviour of the published specification of Kafka's replication (KIP-966)?

   This module extends the specification (github.com/Vanlightly/kafka-tlaplus, kafka_data_replication/kraft/kip-966) and a
   generated module, kafka_traces. Every step of a trace names an action; the step is allowed if the specification's action
   can take it and leads to the state that was observed. A trace is accepted if all its steps can be taken one after the
   other and the specification's invariants hold in between.

   Where a simulated step and the specification differ, the difference is absorbed here, by an operator that kafka_trace.cfg
   puts in the place of a published one, or by an action of this module. docs/protocol/validation.md explains each. *)

EXTENDS kafka_replication_kip_966, kafka_traces

VARIABLES trace, \* the number of the trace
          taken, \* how many of its steps have been taken
          seen   \* the last observation of each broker; a step has only what has changed since

Steps == Traces[trace].steps
Step  == Steps[taken + 1] @@ [message |-> 0, again |-> FALSE, sends |-> 0, hwm |-> 0, after |-> {}, controller |-> {}]

Same(what, expected, observed) ==
    IF expected = observed
    THEN TRUE
    ELSE PrintT(<<"differs", trace, taken + 1, Step.action, what, expected, observed>>) /\ FALSE

\* Whether a log ends with these records.
Ends(log, tail) ==
    \A i \in 1..Len(tail) :
        LET record == log[Len(log) - Len(tail) + i] IN record.epoch = tail[i][1] /\ record.value = tail[i][2]

\* ------------------------------------------------------------------------------------------------------------------
\* The network. A message has a number: a step receives the one that the trace says. A message that is never received
\* is lost when it is sent; one that is received again was retransmitted.

TraceMessages == { entry.body : entry \in { e \in messages : e.number = Step.message } }

NotReceived == IF Step.again THEN messages ELSE { e \in messages : e.number # Step.message }
InFlight(m) == IF Step.sends = 0 THEN {} ELSE {[number |-> Step.sends, body |-> m]}

\* A response has as many records as the trace says, and no higher HWM than the log of the follower has after it (F5).
AsAnswered(m) ==
    IF m.type = FetchResponse /\ m.partition.error = Nil /\ m.partition.diverging_epoch = Nil
    THEN LET start == m.partition.fetch_offset
             end   == start + Step.records
         IN [m EXCEPT !.partition.records = SubSeq(LogOf(Step.broker), start, end - 1),
                      !.partition.hwm     = IF @ > end THEN end ELSE @]
    ELSE m

TraceSend(m)     == messages' = messages \union InFlight(m) /\ UNCHANGED messages_discard
TraceReply(d, m) == messages' = NotReceived \union InFlight(AsAnswered(m)) /\ UNCHANGED messages_discard
TraceDiscard(d)  == messages' = NotReceived /\ UNCHANGED messages_discard

TracePreviouslySent(m) == FALSE
TraceConverged(leader, follower) == FALSE

\* ------------------------------------------------------------------------------------------------------------------
\* The high watermark.

Lowest(offsets) == CHOOSE o \in offsets : \A p \in offsets : o <= p

\* The same value as in the specification. H3: it may stop at a replica that is about to join the ISR.
TraceGetCommitOffset(b, maximal_isr, leo, replica_state) ==
    LET LeoAt(r)  == IF replica_state[r].leo = Nil THEN 1 ELSE replica_state[r].leo
        committed == Lowest({leo} \union { LeoAt(r) : r \in maximal_isr \ {b} }) - 1
        joining   == { r \in partition_metadata[b].replicas \ (maximal_isr \union {b}) :
                         /\ replica_state[r].leo # Nil
                         /\ replica_state[r].leo >= HwmOf(b)
                         /\ partition_leso[b] # Nil
                         /\ replica_state[r].leo >= partition_leso[b] }
    IN IF /\ Step.hwm > 0
          /\ Step.hwm - 1 < committed
          /\ \/ \E r \in joining : replica_state[r].leo = Step.hwm
             \/ Step.hwm = HwmOf(b) /\ \E r \in joining : replica_state[r].leo <= HwmOf(b)
       THEN Step.hwm - 1
       ELSE committed

\* T3: a leader that is elected again knows nothing of its followers, members of the ISR included.
TraceResetFollowerStateOfAllButISR(b, new_part_md) == ResetAllFollowerState(b)

TraceMaybeUpdateHwmAndAckOnPartitionChange(b, part_md, is_new_leader) ==
    LET old_hwm  == HwmOf(b)
        blank    == [r \in Brokers |-> BlankReplicaState]
        state    == IF is_new_leader THEN blank ELSE partition_replica_state[b]
        new_hwm  == GetCommitOffset(b, part_md.maximal_isr, LeoOf(b), state) + 1
        ack_type == Cardinality(part_md.maximal_isr) >= MinISR
    IN MaybeAdvanceHighWatermark(b, part_md.isr, old_hwm, new_hwm, ack_type)

\* ------------------------------------------------------------------------------------------------------------------
\* Metadata. A broker applies every record, not only those that make it act.

TraceUnreplicatedOffsets(b) == {Step.offset} \intersect (Len(broker_metadata_log[b])+1..Len(con_metadata_log))
TracePartitionNeedsAction(b, md_offset) == TRUE

TraceRemainFollower ==
    UNCHANGED << partition_status, partition_data, partition_replica_state, partition_leso, partition_pending_ap,
                 broker_fetchers, inv_vars, aux_flo >>

\* A member of the proposed ISR leaves the ELR, as the specification's comment says and its definition forgets.
TraceUpdateElr(elr, original_isr, proposed_isr, replicas) ==
    IF Cardinality(proposed_isr) >= MinISR
    THEN {}
    ELSE ((elr \union original_isr) \intersect replicas) \ proposed_isr

\* ------------------------------------------------------------------------------------------------------------------
\* Divergence.

\* D3: the lower of both ends, also if the follower does not have the epoch.
TraceFindTruncatePoint(b, diverging_epoch) ==
    Lowest({LastOffsetForEpoch(b, diverging_epoch.epoch, FALSE).offset, diverging_epoch.offset})

\* F5: the HWM stays within the log.
TraceTruncateToSafePoint(b, diverging_epoch) ==
    LET end == FindTruncatePoint(b, diverging_epoch)
    IN [log |-> SubSeq(LogOf(b), 1, end - 1), leo |-> end, hwm |-> Lowest({HwmOf(b), end})]

\* ------------------------------------------------------------------------------------------------------------------
\* The ISR. A leader proposes some of those that the specification lets it propose: not all that caught up at once.

TraceProposeNewISR(b, curr_isr, timed_out_isr) ==
    { r \in partition_metadata[b].replicas :
        /\ \/ r = b
           \/ FollowerIsCaughtUp(b, r, partition_replica_state[b][r].leo, curr_isr, timed_out_isr)
        /\ r \in Step.isr }

ProposeIsr(b) ==
    /\ SendAlterPartitionRequest(b)
    /\ partition_pending_ap'[b].request.isr = Step.isr

\* I3: the proposal was refused, and an earlier copy of it may still be in flight. The ISR is proposed as it is; once that
\* is accepted, its partition epoch voids the copy. Until then the maximal ISR stays.
WithdrawProposal(b) ==
    LET md      == partition_metadata[b]
        request == [type            |-> AlterPartitionRequest,
                    isr             |-> md.isr,
                    isr_and_epochs  |-> IsrAndEpochs(b, md.isr, md.isr),
                    leader          |-> b,
                    leader_epoch    |-> md.leader_epoch,
                    partition_epoch |-> md.partition_epoch,
                    broker_epoch    |-> broker_state[b].broker_epoch,
                    source          |-> b,
                    dest            |-> Controller]
    IN /\ PendingAlterPartitionResponse(b)
       /\ Step.isr = md.isr
       /\ Send(request)
       /\ partition_pending_ap' = [partition_pending_ap EXCEPT ![b].request = request]
       /\ UNCHANGED << con_vars, broker_vars, partition_metadata, partition_data, partition_leso,
                       partition_replica_state, partition_status, inv_vars, aux_vars >>

\* The controller may refuse a proposal for reasons that the specification does not have, such as a broker that is about
\* to be fenced. A refusal changes nothing there.
RefuseProposal ==
    \E m \in Messages :
        /\ m.type = AlterPartitionRequest
        /\ Reply(m, [type |-> AlterPartitionResponse, error |-> IneligibleReplica, request |-> m,
                     dest |-> m.source, source |-> Controller])
        /\ UNCHANGED << con_vars, broker_vars, part_vars, aux_vars, inv_vars >>

\* H3: the HWM waited for a replica that was about to join the ISR, and goes on without it.
ReleaseHwm(b) ==
    /\ broker_state[b].status = RUNNING
    /\ partition_status[b] = Leader
    /\ LET new_hwm == CommitOffsetOnFetch(b, partition_replica_state[b]) + 1
       IN MaybeAdvanceHighWatermark(b, partition_metadata[b].isr, HwmOf(b), new_hwm, TRUE)
    /\ UNCHANGED << con_vars, broker_vars, partition_metadata, partition_leso, partition_replica_state,
                    partition_status, partition_pending_ap, NetworkVars, aux_vars >>

\* ------------------------------------------------------------------------------------------------------------------
\* Fetching.

\* A fetch whose response was lost, or had nothing for the partition.
FetchEnds(b) ==
    /\ broker_fetchers[b][Step.leader].pending_response
    /\ broker_fetchers' = [broker_fetchers EXCEPT ![b][Step.leader].pending_response = FALSE]
    /\ UNCHANGED << con_vars, broker_state, broker_metadata_log, part_vars, NetworkVars, inv_vars, aux_vars >>

\* ------------------------------------------------------------------------------------------------------------------
\* Writing. A batch of records at once; P2: only acks=all asks for MinISR members.

WriteRecords(b) ==
    LET count   == Len(Step.values)
        new_leo == LeoOf(b) + count
        records == [i \in 1..count |-> [epoch  |-> partition_metadata[b].leader_epoch,
                                        offset |-> LeoOf(b) + i - 1,
                                        value  |-> Step.values[i]]]
        old_hwm == HwmOf(b)
        max_hwm == CommitOffsetOnWrite(b, new_leo) + 1
        new_hwm == IF CanAdvanceHwm(b, partition_metadata[b].isr, old_hwm, max_hwm) THEN max_hwm ELSE old_hwm
        new_log == LogOf(b) \o records
    IN /\ broker_state[b].status = RUNNING
       /\ partition_status[b] = Leader
       /\ Step.all => Cardinality(partition_metadata[b].maximal_isr) >= MinISR
       /\ \A i \in 1..count : Step.values[i] \notin inv_sent
       /\ partition_data' = [partition_data EXCEPT ![b] = [leo |-> new_leo, hwm |-> new_hwm, log |-> new_log]]
       /\ inv_true_hwm' = IF new_hwm > inv_true_hwm THEN new_hwm ELSE inv_true_hwm
       /\ inv_consumed' = IF new_hwm > inv_true_hwm
                          THEN inv_consumed \o SubSeq(new_log, inv_true_hwm, new_hwm - 1)
                          ELSE inv_consumed
       /\ inv_sent' = inv_sent \union { Step.values[i] : i \in 1..count }
       /\ aux_flo' = [aux_flo EXCEPT ![b] = IF @ = IntMax THEN LeoOf(b) ELSE @]
       /\ UNCHANGED << con_vars, broker_vars, partition_metadata, partition_status, partition_leso,
                       partition_replica_state, partition_pending_ap, NetworkVars, inv_pos_acked, inv_neg_acked,
                       aux_broker_epoch, aux_ctrs >>

\* ------------------------------------------------------------------------------------------------------------------
\* Brokers start, stop and register.

TraceDropFetchSessions(b) ==
    /\ broker_fetchers' = [broker_fetchers EXCEPT ![b] = [peer \in Brokers |-> BlankFetchState]]
    /\ UNCHANGED NetworkVars

\* A stop keeps what the disk has; only a clean one keeps everything. The controller notices later (FenceBroker).
Crash(b) ==
    LET leo == IF Step.leo = 0 THEN LeoOf(b) ELSE Step.leo
        hwm == IF Step.leo = 0 THEN HwmOf(b) ELSE Step.hwm
    IN /\ broker_state[b].status \notin { OFFLINE_CLEAN, OFFLINE_DIRTY }
       /\ leo <= LeoOf(b)
       /\ hwm <= leo
       /\ Step.clean => Same("LEO after a clean stop", LeoOf(b), leo)
       /\ Same("end of the log", Ends(SubSeq(LogOf(b), 1, leo - 1), Step.tail), TRUE)
       /\ broker_state' = [broker_state EXCEPT ![b] =
                              [status         |-> IF Step.clean THEN OFFLINE_CLEAN ELSE OFFLINE_DIRTY,
                               broker_epoch   |-> IF Step.clean THEN broker_state[b].broker_epoch ELSE 0,
                               incarnation_id |-> 0,
                               registered     |-> FALSE]]
       /\ DropFetchSessions(b)
       /\ partition_status' = [partition_status EXCEPT ![b] = Nil]
       /\ partition_data' = [partition_data EXCEPT ![b] =
                                [log |-> SubSeq(LogOf(b), 1, leo - 1), leo |-> leo, hwm |-> hwm]]
       /\ partition_leso' = [partition_leso EXCEPT ![b] = Nil]
       /\ ResetAllFollowerState(b)
       /\ ResetPendingAlterPartition(b)
       /\ ResetPendingAcks(b)
       /\ UNCHANGED << con_vars, partition_metadata, broker_metadata_log, inv_vars, aux_broker_epoch, aux_ctrs >>

Start(b) ==
    /\ BrokerStart(b)
    /\ Same("epoch of the clean-shutdown file", broker_state'[b].broker_epoch, Step.epoch)

\* ReceiveBrokerRegRequest in two steps: here a broker is registered and stays fenced (B3). An unclean one has left the
\* ELR before (ExpelBroker).
RegisterBroker(b) ==
    \E m \in Messages :
        /\ m.type = RegisterBrokerRequest
        /\ b = m.source
        /\ con_broker_reg[b].status = FENCED
        /\ Step.epoch > aux_broker_epoch
        /\ m.broker_epoch = 0 => b \notin con_partition_metadata.isr \union con_partition_metadata.elr
        /\ con_broker_reg' = [con_broker_reg EXCEPT ![b] =
                                 [status |-> FENCED, broker_epoch |-> Step.epoch, incarnation_id |-> m.incarnation_id]]
        /\ Reply(m, [type            |-> RegisterBrokerResponse,
                     broker_epoch    |-> Step.epoch,
                     incarnation_id  |-> m.incarnation_id,
                     metadata_offset |-> Step.offset,
                     dest            |-> b,
                     source          |-> Controller])
        /\ aux_broker_epoch' = Step.epoch
        /\ UNCHANGED << con_unfenced, con_partition_metadata, con_metadata_log, broker_vars, part_vars, inv_vars,
                        aux_ctrs, aux_flo >>

\* B6: what ProcessUncleanBroker does to the partition. The broker stays fenced.
ExpelBroker(b) ==
    /\ con_broker_reg[b].status = FENCED
    /\ MaybeUpdatePartitionOnBrokerChange(RemoveBrokerFromISR(con_partition_metadata.isr, b),
                                          con_partition_metadata.elr \ {b}, con_unfenced)
    /\ UNCHANGED << con_unfenced, con_broker_reg, broker_vars, part_vars, NetworkVars, inv_vars, aux_vars >>

\* UnfenceBroker, also if the broker has stopped since it sent the heartbeat.
Unfence(b) ==
    /\ con_broker_reg[b].status = FENCED
    /\ HandleBrokerUnfenced(b)
    /\ con_broker_reg' = [con_broker_reg EXCEPT ![b].status = UNFENCED]
    /\ UNCHANGED << broker_vars, part_vars, NetworkVars, inv_vars, aux_vars >>

\* B4: two brokers are fenced at the same time, in slices. What remains in the ISR after the first cannot lead, because it is
\* about to be fenced, too; the specification would elect it for the moment in between.
FencedLater(b) == \E n \in taken+2..Len(Steps) : Steps[n].action = "FenceBroker" /\ Steps[n].broker = b

FenceOneOfTwo(b) ==
    LET md  == con_partition_metadata
        isr == md.isr \ {b}
    IN /\ con_broker_reg[b].status = UNFENCED
       /\ isr # {}
       /\ \A r \in isr : FencedLater(r)
       /\ ApplyPartitionChange(md.replicas, NoLeader, isr, UpdateElrOnIsrOrReplicaChange(isr, md.replicas),
                               md.leader_epoch + 1, md.partition_epoch + 1, md.adding, md.removing)
       /\ con_unfenced' = con_unfenced \ {b}
       /\ con_broker_reg' = [con_broker_reg EXCEPT ![b].status = FENCED]
       /\ UNCHANGED << broker_vars, part_vars, NetworkVars, inv_vars, aux_vars >>

\* T7, B9: a broker starts with the log of a partition that it does not hold any more.
DeleteLog(b) ==
    /\ b \notin partition_metadata[b].replicas
    /\ partition_data' = [partition_data EXCEPT ![b] = [log |-> <<>>, hwm |-> 1, leo |-> 1]]
    /\ UNCHANGED << con_vars, broker_vars, partition_status, partition_metadata, partition_leso, partition_replica_state,
                    partition_pending_ap, NetworkVars, inv_vars, aux_vars >>

\* ------------------------------------------------------------------------------------------------------------------
\* What operators ask for, beyond PerformPartitionReassignment.

UnchangedByOperator == UNCHANGED << con_unfenced, con_broker_reg, broker_vars, part_vars, NetworkVars, inv_vars, aux_vars >>

\* E1: another member of the ISR leads.
ElectPreferred(b) ==
    LET md == con_partition_metadata
    IN /\ b \in md.isr \intersect con_unfenced
       /\ b # md.leader
       /\ ApplyPartitionChange(md.replicas, b, md.isr, md.elr, md.leader_epoch + 1, md.partition_epoch + 1,
                               md.adding, md.removing)
       /\ UnchangedByOperator

\* R1, R5: another target while a reassignment is under way, the same replicas in another order, or a target for a
\* partition without a leader.
ReplaceReassignment(target) ==
    LET md        == con_partition_metadata
        adding    == target \ (md.replicas \ md.adding)
        removing  == md.replicas \ target
        final_isr == md.isr \ removing
        changes   == adding # {} \/ removing # {}
        complete  == /\ changes
                     /\ adding \subseteq final_isr
                     /\ Cardinality(final_isr) >= MinISR
        replicas  == IF complete THEN target ELSE target \union removing
        isr       == IF complete THEN final_isr ELSE md.isr
        epoch     == IF complete THEN md.leader_epoch + 1 ELSE md.leader_epoch
    IN /\ ReassignmentInProgress \/ target = md.replicas \/ md.isr = {}
       /\ \E leader \in isr \union {NoLeader} :
            /\ IF md.leader \in isr \union {NoLeader} THEN leader = md.leader ELSE leader # NoLeader
            /\ ApplyPartitionChange(replicas, leader, isr, UpdateElrOnIsrOrReplicaChange(isr, replicas), epoch,
                                    md.partition_epoch + 1,
                                    IF complete THEN {} ELSE adding, IF complete THEN {} ELSE removing)
       /\ UnchangedByOperator

\* R5: back to the original replicas, if MinISR of them are in sync. If nothing was added, a cancellation looks like a target
\* that names all replicas (ReplaceReassignment).
CancelReassignment ==
    LET md       == con_partition_metadata
        replicas == md.replicas \ md.adding
        isr      == md.isr \ md.adding
        epoch    == md.leader_epoch + 1
    IN /\ md.adding # {}
       /\ Cardinality(isr) >= MinISR
       /\ \E leader \in isr :
            /\ md.leader \in isr => leader = md.leader
            /\ ApplyPartitionChange(replicas, leader, isr, UpdateElrOnIsrOrReplicaChange(isr, replicas), epoch,
                                    md.partition_epoch + 1, {}, {})
       /\ UnchangedByOperator

\* ------------------------------------------------------------------------------------------------------------------
\* The whole logs at the end of a trace.

LogIs(b, log) == Same("log", [i \in 1..Len(LogOf(b)) |-> <<LogOf(b)[i].epoch, LogOf(b)[i].value>>],
                      [i \in 1..Len(log) |-> log[i]])

CompareLog(b) == LogIs(b, Step.log) /\ UNCHANGED vars

\* ------------------------------------------------------------------------------------------------------------------
\* What was observed after a step.

Role(b) == CASE partition_status'[b] = Leader -> "leader" [] partition_status'[b] = Follower -> "follower" [] OTHER -> "idle"
OrNone(leader) == IF leader = NoLeader THEN 0 ELSE leader
LeoOrNone(leo) == IF leo = Nil THEN 0 ELSE leo

ReplicaIs(b, o) ==
    LET md == partition_metadata'[b]
        data == partition_data'[b]
    IN /\ Same("LEO", data.leo, o.leo)
       /\ IF o.role = "none"
          THEN /\ Same("role", Role(b), "idle")
               /\ Same("replicas", md.replicas, {})
          ELSE /\ Same("role", Role(b), o.role)
               /\ Same("leader", OrNone(md.leader), o.leader)
               /\ Same("leader epoch", md.leader_epoch, o.leader_epoch)
               /\ Same("partition epoch", md.partition_epoch, o.partition_epoch)
               /\ Same("replicas", md.replicas, o.replicas)
               /\ Same("ISR", md.isr, o.isr)
               /\ Same("maximal ISR", md.maximal_isr, o.maximal_isr)
               /\ Same("HWM", data.hwm, o.hwm)
               /\ Same("end of the log", Ends(data.log, o.tail), TRUE)
               /\ Same("pending proposal", partition_pending_ap'[b].epoch > md.partition_epoch, o.is_pending)
               /\ Same("fetcher", { p \in Brokers : broker_fetchers'[b][p].partition # Nil },
                                  IF o.fetches_from = 0 THEN {} ELSE {o.fetches_from})
               /\ IF o.role = "leader"
                  THEN /\ Same("LESO", partition_leso'[b], o.leso)
                       /\ LET known == partition_replica_state'[b]
                          IN Same("followers", { <<r, LeoOrNone(known[r].leo), known[r].broker_epoch>> :
                                                 r \in md.replicas \ {b} }, o.followers)
                  ELSE TRUE

\* E5: here the last-known ELR has no member of the ISR or the ELR.
ControllerIs(o) ==
    LET md == con_partition_metadata'
    IN /\ Same("replicas", md.replicas, o.replicas)
       /\ Same("ISR", md.isr, o.isr)
       /\ Same("ELR", md.elr, o.elr)
       /\ Same("last-known ELR", md.last_known_elr \ (md.isr \union md.elr), o.last_known_elr)
       /\ Same("leader", OrNone(md.leader), o.leader)
       /\ Same("leader epoch", md.leader_epoch, o.leader_epoch)
       /\ Same("partition epoch", md.partition_epoch, o.partition_epoch)
       /\ Same("adding", md.adding, o.adding)
       /\ Same("removing", md.removing, o.removing)

Nothing == [name \in {} |-> 0]

Observed ==
    /\ IF Step.action = "Crash"
       THEN seen' = [seen EXCEPT ![Step.broker] = Nothing]
       ELSE IF Step.after = {}
            THEN UNCHANGED seen
            ELSE seen' = [seen EXCEPT ![Step.broker] = (CHOOSE o \in Step.after : TRUE) @@ @]
    /\ Step.after # {} => ReplicaIs(Step.broker, seen'[Step.broker])
    /\ \A o \in Step.controller : ControllerIs(o)

\* ------------------------------------------------------------------------------------------------------------------
\* The behaviour.

Action(b) ==
    CASE Step.action = "MetadataUpdate"       -> ReceiveMetadataUpdate(b)
      [] Step.action = "ProposeIsr"           -> ProposeIsr(b)
      [] Step.action = "ProposalAnswered"     -> ReceiveAlterPartitionResponse(b)
      [] Step.action = "AlterPartition"       -> ReceiveAlterPartitionRequest(b)
      [] Step.action = "SendFetch"            -> SendFetchRequest(b)
      [] Step.action = "FetchRequest"         -> ReceiveFetchRequest(b)
      [] Step.action = "FetchResponse"        -> ReceiveFetchResponse(b)
      [] Step.action = "FenceBroker"          -> FenceBroker(b)
      [] Step.action = "FenceOneOfTwo"        -> FenceOneOfTwo(b)
      [] Step.action = "RegistrationResponse" -> ReceiveBrokerRegResponse(b)
      [] Step.action = "StartReassignment"    -> IF con_partition_metadata.isr # {}
                                                 THEN PerformPartitionReassignment
                                                 ELSE ReplaceReassignment(Step.target)
      [] Step.action = "BrokerStart"          -> Start(b)
      [] Step.action = "WriteRecords"         -> WriteRecords(b)
      [] Step.action = "Crash"                -> Crash(b)
      [] Step.action = "RegisterBroker"       -> RegisterBroker(b)
      [] Step.action = "ExpelBroker"          -> ExpelBroker(b)
      [] Step.action = "UnfenceBroker"        -> Unfence(b)
      [] Step.action = "WithdrawProposal"     -> WithdrawProposal(b)
      [] Step.action = "RefuseProposal"       -> RefuseProposal
      [] Step.action = "ReleaseHwm"           -> ReleaseHwm(b)
      [] Step.action = "FetchEnds"            -> FetchEnds(b)
      [] Step.action = "DeleteLog"            -> DeleteLog(b)
      [] Step.action = "ElectPreferred"       -> ElectPreferred(b)
      [] Step.action = "ReplaceReassignment"  -> ReplaceReassignment(Step.target)
      [] Step.action = "CancelReassignment"   -> CancelReassignment
      [] Step.action = "CompareLog"           -> CompareLog(b)
      [] OTHER                                -> FALSE

Holds(name, property) == IF property THEN TRUE ELSE PrintT(<<"violated", trace, taken, name>>) /\ FALSE

TraceInvariants ==
    /\ Holds("ReplicationQuorumSuperset", ReplicationQuorumSupersetProperty)
    /\ Holds("LeaderCandidateCompleteness", LeaderCandidateCompletenessProperty)
    /\ Holds("ValidReplicaState", ValidReplicaState)
    /\ Holds("ValidControllerIsrAndElr", ValidControllerIsrAndElr)
    /\ Step.action \in { "FenceBroker", "FenceOneOfTwo", "UnfenceBroker", "ElectPreferred", "CompareLog" } =>
            \* these look at every record, so they are checked before elections and at the end only
            /\ Holds("LeaderCompleteness", LeaderCompletenessProperty)
            /\ Holds("LogMatching", LogMatchingProperty)
            /\ Holds("MetadataLogMatching", MetadataLogMatchingProperty)
            /\ Holds("ConsistentRead", ConsistentReadProperty)

TraceNext ==
    /\ taken < Len(Steps)
    /\ TraceInvariants
    /\ Explain => PrintT(<<"step", trace, taken + 1, Step.action, Step.broker>>)
    /\ Action(Step.broker)
    /\ Observed
    /\ taken' = taken + 1
    /\ trace' = trace
    /\ taken + 1 = Len(Steps) => PrintT(<<"accepted", trace, Len(Steps)>>)

\* The partition was just created: the controller knows it, the brokers do not yet.
TraceInit ==
    /\ trace \in 1..Len(Traces)
    /\ taken = 0
    /\ LET start   == Traces[trace].init
           brokers == start.brokers
           c       == start.controller
           md      == [replicas |-> c.replicas, isr |-> c.isr, elr |-> c.elr, last_known_elr |-> c.last_known_elr,
                       leader |-> c.leader, leader_epoch |-> c.leader_epoch, partition_epoch |-> c.partition_epoch,
                       adding |-> {}, removing |-> {}]
       IN /\ con_unfenced = { b \in Brokers : brokers[b].unfenced }
          /\ con_broker_reg = [b \in Brokers |-> [status         |-> IF brokers[b].unfenced THEN UNFENCED ELSE FENCED,
                                                  broker_epoch   |-> brokers[b].epoch,
                                                  incarnation_id |-> IF brokers[b].status = "running" THEN b ELSE 0]]
          /\ con_partition_metadata = md
          /\ con_metadata_log = <<md>>
          /\ broker_state = [b \in Brokers |->
                                [status         |-> CASE brokers[b].status = "running"  -> RUNNING
                                                      [] brokers[b].status = "starting" -> STARTING
                                                      [] OTHER                          -> OFFLINE_DIRTY,
                                 broker_epoch   |-> IF brokers[b].status = "running"
                                                    THEN brokers[b].epoch ELSE brokers[b].file_epoch,
                                 incarnation_id |-> b,
                                 registered     |-> brokers[b].status = "running"]]
          /\ messages = { [number |-> b,
                           body   |-> [type |-> RegisterBrokerRequest, broker_id |-> b,
                                       broker_epoch |-> brokers[b].file_epoch, incarnation_id |-> b,
                                       dest |-> Controller, source |-> b]] :
                          b \in { x \in Brokers : brokers[x].status = "starting" } }
          /\ aux_broker_epoch = Max({ brokers[b].epoch : b \in Brokers })
    /\ broker_fetchers = [b \in Brokers |-> [peer \in Brokers |-> BlankFetchState]]
    /\ broker_metadata_log = [b \in Brokers |-> <<>>]
    /\ partition_status = [b \in Brokers |-> Nil]
    /\ partition_metadata = [b \in Brokers |-> BlankMetadata]
    /\ partition_data = [b \in Brokers |-> [log |-> <<>>, hwm |-> 1, leo |-> 1]]
    /\ partition_leso = [b \in Brokers |-> Nil]
    /\ partition_replica_state = [b \in Brokers |-> [b1 \in Brokers |-> BlankReplicaState]]
    /\ partition_pending_ap = [b \in Brokers |-> [epoch |-> 0, request |-> Nil]]
    /\ aux_ctrs = [incarn_ctr |-> BrokerCount + 1, no_data_loss_shutdown_ctr |-> 0, data_loss_shutdown_ctr |-> 0,
                   fence_broker_ctr |-> 0, leader_shrink_isr_ctr |-> 0, reassignment_ctr |-> 0]
    /\ aux_flo = [b \in Brokers |-> IntMax]
    /\ inv_sent = {}
    /\ inv_pos_acked = {}
    /\ inv_neg_acked = {}
    /\ inv_true_hwm = 1
    /\ inv_consumed = <<>>
    /\ messages_discard = {}
    /\ seen = [b \in Brokers |-> Nothing]

Position == <<trace, taken>>
=============================================================================
