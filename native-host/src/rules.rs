//! The host's own reasons to leave a call to native: what comes from the environment of a call, and faults of a translator.
//!
//! One table; the command line, the documentation and the tests are derived from it. Rules about what can be translated are not here:
//! those are the translator's.

macro_rules! host_rules {
    ($($name:ident $id:literal $reason:literal;)*) => {
        /// A reason of the host to decline a call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum HostRule {
            $(#[doc = $reason] $name,)*
        }

        impl HostRule {
            /// Every rule there is.
            pub const ALL: &[HostRule] = &[$(HostRule::$name,)*];

            /// Stable identifier.
            pub fn id(self) -> &'static str {
                match self { $(HostRule::$name => $id,)* }
            }

            /// The rule of an identifier.
            pub fn of(id: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|rule| rule.id() == id)
            }

            /// One line for rule tables.
            pub fn reason(self) -> &'static str {
                match self { $(HostRule::$name => $reason,)* }
            }
        }
    };
}

host_rules! {
    DescriptorUnrecorded "host.descriptor.unrecorded" "a descriptor or handle whose setters the shim has not seen";
    ScalingNull "host.scaling.null" "alpha or beta is a null pointer";
    ProblemSize "host.problem.size" "a problem with more operations or tensors than are recorded";
    FusionIncomplete "host.fusion.incomplete" "a fusion plan that is not compiled, or arguments that are missing or not those that were planned";
    FusionActivation "host.fusion.activation" "the fused convolution call with another activation than ReLU: what it answers is native's to say";
    PolicyAlgorithm "host.policy.native-algorithm" "no decline: the caller chose an algorithm that native's Find listed";
    PolicySolution "host.policy.native-solution" "no decline: the caller chose a solution that native listed";
    PointerNull "host.pointer.null" "a tensor argument is a null pointer";
    ExtentUnknown "host.extent.unknown" "the extent of a tensor argument cannot be computed";
    Aliasing "host.aliasing" "two arguments share memory, which MIOpen does not say the meaning of";
    AlignmentUnsupported "host.alignment.unsupported" "a pointer less aligned than the backend can be told";
    CaptureCold "host.capture.cold" "first execution of a plan while the stream is being captured";
    CaptureEngine "host.capture.engine" "the engine cannot run while the stream is being captured";
    StackShort "host.stack" "too little stack left on the calling thread to run the translator or to build a plan";
    WorkspaceAllocation "host.workspace.allocation" "the workspace that the plan needs could not be allocated";
    BackendUnavailable "host.backend.unavailable" "hipDNN or HIP cannot be used in this process";
    BackendUnsupported "host.backend.unsupported" "no engine of the backend takes the graph";
    BackendBuildFailed "host.backend.build-failed" "building the plan failed, for a query that native answers too, or with MIOPEN_HIPDNN_ON_ERROR=fallback";
    CircuitOpen "host.circuit.open" "hipDNN failed so many calls of this entry point in a row that it is not asked any more";
    TranslatorUnavailable "host.translator.unavailable" "the translator cannot be loaded";
    TranslatorFamily "host.translator.family" "the translator does not translate this family";
    TranslatorTrap "host.translator.trap" "the translator trapped or exceeded its fuel, stack or memory";
    TranslatorReply "host.translator.reply" "the translator named a rule that its manifest does not list";
    TranslatorQuarantined "host.translator.quarantined" "the translator failed so often in this process that it is not asked any more";
    GraphSize "host.graph.size" "the translator's graph has too many (or no) parts";
    GraphUid "host.graph.uid" "a tensor uid that is defined twice, or not at all";
    GraphOperation "host.graph.operation" "a node that is no operation of the backend";
    GraphAttribute "host.graph.attribute" "an attribute that the operation does not have, lacks, or of another type, count or value";
    GraphTensor "host.graph.tensor" "a tensor whose type, lengths, strides or constant make no sense";
    GraphBinding "host.graph.binding" "a tensor not bound to exactly one argument that the call uses that way";
    GraphExtent "host.graph.extent" "a tensor that reaches beyond its argument";
    GraphOverlap "host.graph.overlap" "an output with two elements on one address";
    GraphAliasing "host.graph.aliasing" "an argument that the graph reads and writes, but the call does not";
    GraphOrder "host.graph.order" "a value used before it is produced, produced twice, never produced or never used";
}

#[cfg(test)]
mod tests {
    use super::HostRule;

    #[test]
    fn ids_are_unique_and_start_with_host() {
        let ids: std::collections::BTreeSet<_> = HostRule::ALL.iter().map(|r| r.id()).collect();
        assert_eq!(ids.len(), HostRule::ALL.len());
        assert!(ids.iter().all(|id| id.starts_with("host.")));
    }
}
