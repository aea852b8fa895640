//! Whether a component that loads is a translator: what it says about itself makes sense, and it answers a plain problem of each of its
//! families, twice alike. Not whether its answers are right: that is for the offline tools.

use std::collections::HashSet;

use crate::{
    capabilities::Capabilities,
    component::{Description, Entry, Translator},
    data_type::DataType,
    environment::Family,
    judge::judge,
    problem::{
        Activation, ActivationMode, ActivationProblem, ConvolutionDescriptor, ConvolutionDirection, ConvolutionFields, ConvolutionMode,
        ConvolutionProblem, DescriptorError, FusedOperation, FusionProblem, Problem, Scaling, TensorDescriptor,
    },
    rules::HostRule,
};

/// Rules, notes or families.
const MAX_ENTRIES: usize = 4096;
/// Bytes of a name, an id or a reason.
const MAX_TEXT: usize = 1024;

/// The reason to refuse a translator, if there is one.
pub fn self_check(translator: &Translator) -> Result<(), String> {
    let description = translator.description();
    describes_itself(description)?;
    for family in Family::ALL.iter().filter(|family| description.families.iter().any(|name| name == family.name())) {
        let answers = with_plain_problem(*family, |problem| answers_plainly(translator, problem));
        // What is plain here is no reason to refuse anybody.
        answers.unwrap_or(Ok(())).map_err(|reason| format!("a plain {} problem: {reason}", family.name()))?;
    }
    Ok(())
}

fn answers_plainly(translator: &Translator, problem: &Problem<'_>) -> Result<(), String> {
    let capabilities = Capabilities::whole_abi();
    let ask = || translator.translate(problem, &capabilities).map_err(|error| error.to_string());
    let (first, second) = (ask()?, ask()?);
    if first != second {
        return Err("two answers to one question".into());
    }
    match judge(Ok(first), translator.description(), problem) {
        Err(declined) if HostRule::of(&declined.rule).is_some() => Err(format!("{}: {}", declined.rule, declined.message)),
        _ => Ok(()),
    }
}

/// A problem that every translator of a family can be asked: whatever it thinks of it, it must not stumble.
fn with_plain_problem<R>(family: Family, ask: impl FnOnce(&Problem<'_>) -> R) -> Result<R, DescriptorError> {
    let image = TensorDescriptor::new(DataType::Float, None, &[1, 2, 4, 4], &[32, 16, 4, 1], 1, None)?;
    let scaling = Scaling::NONE;
    let activation = Activation { mode: ActivationMode::Relu, alpha: 0.0, beta: 0.0, gamma: 0.0 };
    Ok(match family {
        Family::Conv => {
            let w = TensorDescriptor::new(DataType::Float, None, &[2, 2, 3, 3], &[18, 9, 3, 1], 1, None)?;
            let fields = ConvolutionFields::initial(ConvolutionMode::Convolution, vec![1, 1], vec![1, 1], vec![1, 1]);
            let convolution = ConvolutionDescriptor::new(fields)?;
            ask(&Problem::Convolution(ConvolutionProblem {
                direction: ConvolutionDirection::Forward,
                convolution: &convolution,
                x: &image,
                w: &w,
                y: &image,
                alpha: scaling.alpha,
                beta: scaling.beta,
                algorithm: None,
            }))
        }
        Family::Fusion => {
            let operations = [FusedOperation::Activation { activation, scaling }];
            ask(&Problem::Fusion(FusionProblem { input: &image, operations: &operations, output: &image }))
        }
        Family::Activation => ask(&Problem::Activation(ActivationProblem { activation, scaling, x: &image, y: &image })),
    })
}

fn describes_itself(description: &Description) -> Result<(), String> {
    let short = |what: &str, text: &str| {
        let good = !text.is_empty() && text.len() <= MAX_TEXT && !text.chars().any(char::is_control);
        if good { Ok(()) } else { Err(format!("its manifest has a {what} that is empty, too long or not one line")) }
    };
    short("name", &description.name)?;
    short("version", &description.version)?;
    if semver(&description.version).is_none() {
        return Err(format!("its version {:?} is no semantic version", description.version));
    }
    if description.families.is_empty() {
        return Err("its manifest lists no family".into());
    }
    let counts = [description.families.len(), description.rules.len(), description.notes.len()];
    if counts.iter().any(|count| *count > MAX_ENTRIES) {
        return Err(format!("its manifest lists more than {MAX_ENTRIES} families, rules or notes"));
    }
    description.families.iter().try_for_each(|family| short("family", family))?;
    [&description.rules, &description.notes].into_iter().try_for_each(|entries| {
        entries.iter().try_for_each(|Entry { id, reason }| short("id", id).and_then(|()| short("reason", reason)))?;
        let ids: HashSet<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
        if ids.len() == entries.len() { Ok(()) } else { Err("its manifest lists an id twice".to_string()) }
    })?;
    match description.rules.iter().find(|rule| rule.id.starts_with("host.")) {
        Some(rule) => Err(format!("its rule {:?} has a name of the host's", rule.id)),
        None => Ok(()),
    }
}

/// MAJOR.MINOR.PATCH, with whatever a semantic version may have behind it.
fn semver(text: &str) -> Option<()> {
    let core = text.split(['-', '+']).next()?;
    let numbers: Vec<&str> = core.split('.').collect();
    (numbers.len() == 3 && numbers.iter().all(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())))
        .then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description() -> Description {
        let entry = |id: &str| Entry { id: id.into(), reason: "because".into() };
        Description {
            name: "one".into(),
            version: "1.2.3-rc.1+4".into(),
            families: vec!["conv".into()],
            rules: vec![entry("a.b"), entry("a.c")],
            notes: vec![entry("a.b")],
        }
    }

    #[test]
    fn the_built_in_one_passes() {
        self_check(&Translator::embedded().unwrap()).unwrap();
    }

    #[test]
    fn what_a_manifest_may_not_say() {
        describes_itself(&description()).unwrap();
        type Bend = fn(&mut Description);
        let bends: [(Bend, &str); 8] = [
            (|d| d.name.clear(), "name"),
            (|d| d.name = "two\nlines".into(), "name"),
            (|d| d.version = "1.2".into(), "semantic"),
            (|d| d.families.clear(), "no family"),
            (|d| d.rules[0].id = "host.stack".into(), "host's"),
            (|d| d.rules[0].id = "a.c".into(), "twice"),
            (|d| d.rules[0].reason = "x".repeat(MAX_TEXT + 1), "reason"),
            (|d| d.notes = vec![d.notes[0].clone(); MAX_ENTRIES + 1], "more than"),
        ];
        for (bend, says) in bends {
            let mut bent = description();
            bend(&mut bent);
            let error = describes_itself(&bent).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
