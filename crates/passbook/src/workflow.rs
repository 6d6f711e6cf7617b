//! What a kind of workflow is: a type that holds its dependencies, or a plain function.

use std::fmt::Display;
use std::marker::PhantomData;
use std::pin::Pin;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::run::message;
use crate::{Durable, Failure, Run, Value};

/// A kind of workflow. The value that implements it holds what the body needs: gateways, settings, clients.
///
/// ```
/// use passbook::{Durable, Run, Workflow};
///
/// struct Greeting {
///     salutation: String,
/// }
///
/// impl<S: Durable> Workflow<S> for Greeting {
///     const NAME: &'static str = "greeting";
///     type Input = String;
///     type Output = String;
///     type Error = String;
///
///     async fn run(&self, run: &Run<S>, name: String) -> Result<String, String> {
///         run.step("composed", async || Ok(format!("{}, {name}!", self.salutation))).await
///     }
/// }
/// ```
pub trait Workflow<S: Durable>: Send + Sync + 'static {
    /// The namespace of the kind: the name of its queue.
    const NAME: &'static str;
    /// What it is started with.
    type Input: Serialize + DeserializeOwned + Send;
    /// What it comes to.
    type Output: Serialize + DeserializeOwned + Send;
    /// What a failed pass is told by. Its message is kept with the workflow.
    type Error: Display + Send;

    /// The body: called again from the top on every pass, so everything outside of steps must come to the same.
    fn run(&self, run: &Run<S>, input: Self::Input) -> impl Future<Output = Result<Self::Output, Self::Error>> + Send;

    /// Whether trying again cannot help, so that the workflow is parked as failed at once.
    fn is_permanent(&self, error: &Self::Error) -> bool {
        let _ = error;
        false
    }
}

/// A body that is a plain `async fn(&Run<S>, I) -> Result<O, E>`. Implemented for every such function.
pub trait Body<'r, S: Durable, I>: Send + Sync + 'static {
    /// What it comes to.
    type Output: Serialize;
    /// What a failed pass is told by.
    type Error: Display;
    /// One pass.
    type Future: Future<Output = Result<Self::Output, Self::Error>> + Send + 'r;

    /// Begins a pass.
    fn call(&self, run: &'r Run<S>, input: I) -> Self::Future;
}

impl<'r, S, I, F, P, O, E> Body<'r, S, I> for F
where
    S: Durable,
    F: Fn(&'r Run<S>, I) -> P + Send + Sync + 'static,
    P: Future<Output = Result<O, E>> + Send + 'r,
    O: Serialize,
    E: Display,
{
    type Output = O;
    type Error = E;
    type Future = P;

    fn call(&self, run: &'r Run<S>, input: I) -> P {
        self(run, input)
    }
}

pub(crate) type Ending = Result<Value, Failure>;

/// A kind of workflow as the worker sees it: text in, text out.
pub(crate) trait Kind<S: Durable>: Send + Sync {
    fn run<'r>(&'r self, run: &'r Run<S>, input: &'r Value) -> Pin<Box<dyn Future<Output = Ending> + Send + 'r>>;
}

pub(crate) struct Typed<W>(pub(crate) W);

impl<S: Durable, W: Workflow<S>> Kind<S> for Typed<W> {
    fn run<'r>(&'r self, run: &'r Run<S>, input: &'r Value) -> Pin<Box<dyn Future<Output = Ending> + Send + 'r>> {
        Box::pin(async move {
            let input = decode_input(run.workflow(), input)?;
            match self.0.run(run, input).await {
                Ok(output) => encode_result(run.workflow(), &output),
                Err(error) => Err(Failure {
                    message: message(&error),
                    permanent: self.0.is_permanent(&error),
                }),
            }
        })
    }
}

pub(crate) struct Function<F, I>(F, PhantomData<fn(I)>);

impl<F, I> Function<F, I> {
    pub(crate) fn new(body: F) -> Self {
        Self(body, PhantomData)
    }
}

impl<S, F, I> Kind<S> for Function<F, I>
where
    S: Durable,
    I: DeserializeOwned + Send,
    F: for<'r> Body<'r, S, I>,
{
    fn run<'r>(&'r self, run: &'r Run<S>, input: &'r Value) -> Pin<Box<dyn Future<Output = Ending> + Send + 'r>> {
        let body = match decode_input(run.workflow(), input) {
            Ok(input) => self.0.call(run, input),
            Err(failure) => return Box::pin(async { Err(failure) }),
        };
        Box::pin(async move {
            let ended = body.await.map_err(|error| Failure {
                message: message(&error),
                permanent: false,
            });
            ended.and_then(|output| encode_result(run.workflow(), &output))
        })
    }
}

fn decode_input<I: DeserializeOwned>(workflow: &str, input: &Value) -> Result<I, Failure> {
    input.decode().map_err(|why| Failure {
        message: format!(
            "the input of workflow `{workflow}`: {why}; was the input's type changed? the record stays as it is"
        ),
        permanent: true,
    })
}

fn encode_result<O: Serialize>(workflow: &str, output: &O) -> Ending {
    Value::encode(output).map_err(|why| Failure {
        message: format!("the result of workflow `{workflow}` cannot be kept: {why}"),
        permanent: true,
    })
}
