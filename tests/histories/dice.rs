//! What happens in a history: drawn by fixed weights from a seed, so that a failure can be played again.

/// SplitMix64 (public domain, Sebastiano Vigna): enough for dice, and the same everywhere.
pub struct Dice(u64);

impl Dice {
    /// The dice of one history of a run.
    pub fn new(seed: u64, index: u64) -> Self {
        let mut dice = Self(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// True in `percent` of 100 throws.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        if list.is_empty() { None } else { list.get(self.below(list.len())) }
    }

    pub fn weighted<T: Copy>(&mut self, table: &[(usize, T)]) -> T {
        let mut at = self.below(table.iter().map(|(weight, _)| weight).sum());
        for (weight, value) in table {
            if at < *weight {
                return *value;
            }
            at -= weight;
        }
        table[0].1
    }
}

/// One thing that people, controllers, nodes or time do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Rollout,
    Restart,
    KubectlUndo,
    OurUndo,
    Save,
    Scale,
    ToZeroAndBack,
    DeletePod,
    Crash,
    TouchPod,
    Set,
    PutBack,
    AddKey,
    RemoveKey,
    Label,
    LabelAndBack,
    Apply,
    Replace,
    NoOp,
    ToBinary,
    WipeManagedFields,
    Freeze,
    Delete,
    RecreateEqual,
    RecreateOther,
    RecreateImmutable,
    OtherWorkload,
    OtherWorkloadGoes,
    LoseEvents,
    LoseAnEvent,
    LabelEvent,
    Compact,
    Relabel,
    RelabelBack,
    Adopt,
    Rewrite,
    EditRetired,
    LabelReplicaSet,
    Late,
    Wait,
    Turn,
}

/// How often each step is drawn.
pub const STEPS: &[(usize, Step)] = &[
    (12, Step::Rollout),
    (3, Step::Restart),
    (3, Step::KubectlUndo),
    (10, Step::OurUndo),
    (9, Step::Save),
    (4, Step::Scale),
    (2, Step::ToZeroAndBack),
    (6, Step::DeletePod),
    (4, Step::Crash),
    (1, Step::TouchPod),
    (10, Step::Set),
    (5, Step::PutBack),
    (3, Step::AddKey),
    (6, Step::RemoveKey),
    (2, Step::Label),
    (1, Step::LabelAndBack),
    (2, Step::Apply),
    (2, Step::Replace),
    (1, Step::NoOp),
    (1, Step::ToBinary),
    (1, Step::WipeManagedFields),
    (3, Step::Freeze),
    (2, Step::Delete),
    (3, Step::RecreateEqual),
    (3, Step::RecreateOther),
    (3, Step::RecreateImmutable),
    (2, Step::OtherWorkload),
    (1, Step::OtherWorkloadGoes),
    (3, Step::LoseEvents),
    (3, Step::LoseAnEvent),
    (2, Step::LabelEvent),
    (1, Step::Compact),
    (1, Step::Relabel),
    (1, Step::RelabelBack),
    (1, Step::Adopt),
    (2, Step::Rewrite),
    (2, Step::EditRetired),
    (2, Step::LabelReplicaSet),
    (4, Step::Late),
    (12, Step::Wait),
    (10, Step::Turn),
];

/// How one template reads a ConfigMap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Key,
    OptionalKey,
    From,
    FromPrefixed,
    FromOptional,
    Whole,
    Items,
    SubPath,
    Projected,
    OptionalVolume,
    Unmounted,
    InitKey,
    SideFrom,
}

pub const WAYS: &[(usize, Way)] = &[
    (6, Way::Key),
    (2, Way::OptionalKey),
    (6, Way::From),
    (2, Way::FromPrefixed),
    (1, Way::FromOptional),
    (3, Way::Whole),
    (2, Way::Items),
    (3, Way::SubPath),
    (2, Way::Projected),
    (1, Way::OptionalVolume),
    (1, Way::Unmounted),
    (2, Way::InitKey),
    (2, Way::SideFrom),
];

/// How old, in milliseconds, the ConfigMap is when the Deployment comes. `None`: the Deployment comes first.
pub const AGES: &[(usize, Option<u64>)] = &[(4, None), (12, Some(0)), (12, Some(3_500)), (72, Some(11_500))];

/// How long a wait is, in milliseconds.
pub const WAITS: &[(usize, u64)] = &[(5, 100), (4, 700), (4, 2_300), (2, 4_000), (4, 11_500)];

/// Whose control plane: with its history, one that loses it now and then, one with Pods and Events in other stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Where {
    Main,
    Compact,
    Split,
    Node,
}

pub const PLANES: &[(usize, Where)] = &[(5, Where::Main), (3, Where::Compact), (2, Where::Split)];

/// What the person may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Eyes {
    All,
    NoEvents,
    NoPods,
    /// ConfigMaps by `resourceNames` only.
    ByName,
}

pub const EYES: &[(usize, Eyes)] = &[(12, Eyes::All), (1, Eyes::NoEvents), (1, Eyes::NoPods), (2, Eyes::ByName)];
